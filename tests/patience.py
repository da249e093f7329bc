"""Time for a busy machine: what the product gives up after a moment, it waits for here.

A machine that stalls for seconds must not decide a test. Settings are the harness's to raise; these are constants, which
a test that means one of them sets to what it needs. It knows nothing of what is tested.
"""

from functools import partial

import pytest
from pydantic import SecretStr

from gateway.settings import CacheSettings, DatabaseSettings

__all__ = ["FRESH", "LONG_S", "PATIENT", "PatientDatabase", "be_patient", "patient_cache"]

LONG_S = 60.0
FRESH = "gateway.tenancy.revision.FRESH_S"

_LIMITS = (
    "gateway.app.POLL_TIMEOUT_S",
    "gateway.exchange.closer.FINAL_FIGURE_S",
    "gateway.limits.limiter.STOP_TIMEOUT_S",
    "gateway.pool.sampler.TIMEOUT_S",
    "gateway.reconcile.http_journal.CALL_TIMEOUT_S",
    "gateway.sessions.directory.LOAD_TIMEOUT_S",
    "gateway.sessions.oidc.provider.TIMEOUT_S",
    FRESH,
    "gateway.upstream.client.IDLE_CONNECTION_S",
    "gateway.upstream.connection.RUN_OUT_S",
    "gateway.upstream.native.SIDE_CALL_TIMEOUT_S",
)
_LOCKS_MS = ("gateway.db.LOCK_TIMEOUT_MS", "gateway.db.IDLE_IN_TRANSACTION_TIMEOUT_MS")


PATIENT = {
    "TOLLWAY_CACHE__TIMEOUT_S": "5",
    "TOLLWAY_DATABASE__CONNECT_TIMEOUT_S": str(LONG_S),
    "TOLLWAY_DATABASE__STATEMENT_TIMEOUT_S": str(LONG_S),
    "TOLLWAY_LEDGER__RESERVE_TIMEOUT_S": str(LONG_S),
    "TOLLWAY_UPSTREAM__CONNECT_TIMEOUT_S": str(LONG_S),
}
"""The environment of a process that is to have time too."""


PatientDatabase = partial(DatabaseSettings, connect_timeout_s=LONG_S, statement_timeout_s=LONG_S)


def patient_cache(url: str) -> CacheSettings:
    """Beyond what an operator may choose."""
    return CacheSettings(url=SecretStr(url)).model_copy(update={"timeout_s": LONG_S})


def be_patient(patch: pytest.MonkeyPatch, *but: str) -> None:
    """`but`: what stays as it is."""
    for name in set(_LIMITS) - set(but):
        patch.setattr(name, LONG_S)
    for name in _LOCKS_MS:
        patch.setattr(name, int(LONG_S * 1000))
