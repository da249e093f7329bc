"""What the engines of an external pool ask of whoever calls them: a key, and a certificate of somebody's own making.

The key is sealed in the pool's row and opened here, in the processes that call engines; nothing shows it. It does not
know where it is sent.
"""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.ids import Entropy, PoolId
from gateway.keyring import Keyring, SecretBox
from gateway.obs.logging import get_logger
from gateway.settings import SettingsError

__all__ = ["SECRET_PURPOSE", "EngineAccess", "PoolAccess", "secret_owner", "trusting"]

SECRET_PURPOSE = "pool"

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class EngineAccess:
    """One object for as long as nothing changes: kept connections are told apart by its context."""

    api_key: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None
    """Trusts the pool's own certificate authorities and no others; None: those of the system."""


class PoolAccess:
    def __init__(self, ring: Callable[[], Keyring], entropy: Entropy) -> None:
        """`ring` is read when the first key is met: a process without one needs no master key."""
        self._ring = ring
        self._entropy = entropy
        self._box: SecretBox | None = None
        self._known: dict[PoolId, tuple[bytes | None, str | None, EngineAccess]] = {}

    def seal(self, pool_id: PoolId, api_key: str) -> bytes:
        """Raises SettingsError when there is no master key."""
        return self._opened_box().close(api_key.encode(), secret_owner(pool_id))

    def of(self, pool_id: PoolId, sealed: bytes | None, ca_bundle: str | None) -> EngineAccess | None:
        """None when nothing is asked for. A key that cannot be opened is logged and left out: the engine refuses."""
        if sealed is None and ca_bundle is None:
            self._known.pop(pool_id, None)
            return None
        known = self._known.get(pool_id)
        if known is not None and known[:2] == (sealed, ca_bundle):
            return known[2]
        access = EngineAccess(
            self._open(pool_id, sealed) if sealed is not None else None,
            trusting(ca_bundle) if ca_bundle is not None else None,
        )
        self._known[pool_id] = (sealed, ca_bundle, access)
        return access

    def _open(self, pool_id: PoolId, sealed: bytes) -> str | None:
        try:
            plain = self._opened_box().open(sealed, secret_owner(pool_id))
        except SettingsError as error:
            _log.error("the API key of a pool cannot be opened", pool=pool_id, error=str(error))
            return None
        if plain is None:
            _log.error("the API key of a pool was sealed under a master key that is gone", pool=pool_id)
        return plain.decode() if plain is not None else None

    def _opened_box(self) -> SecretBox:
        if self._box is None:
            self._box = SecretBox(self._ring(), SECRET_PURPOSE, self._entropy)
        return self._box


def secret_owner(pool_id: str) -> bytes:
    return b"pool\0" + pool_id.encode()


def trusting(ca_bundle: str) -> ssl.SSLContext:
    """Certificates and host names are verified. Raises ValueError for what holds no certificate."""
    try:
        context = ssl.create_default_context(
            cadata=ca_bundle or "-"
        )  # of nothing at all it makes the system's
    except (ssl.SSLError, ValueError, UnicodeError):
        raise ValueError("ca_bundle: these are no certificates in PEM") from None
    if not context.get_ca_certs():
        raise ValueError("ca_bundle: no certificate in it is one of an authority")
    return context
