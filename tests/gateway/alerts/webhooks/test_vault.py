"""Sealed secrets: they open for their own endpoint, and are sealed again under a newer key."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime

from gateway.alerts.webhooks.signing import Secrets
from gateway.alerts.webhooks.types import Endpoint
from gateway.alerts.webhooks.vault import Vault
from gateway.keyring import Keyring, Keys

AT = datetime(2026, 11, 30, tzinfo=UTC)
ENDPOINT = Endpoint(
    "we_1", None, "n", "https://x.org/", ("ledger.drift",), "standard", b"", "h", None, None, None, AT, AT
)
SECRETS = Secrets("whsec_a", "whsec_b", AT, "r" * 32)


def test_what_is_closed_opens_for_its_endpoint_alone() -> None:
    vault = Vault(Keyring(Keys({"m1": b"one"})), os.urandom)
    mine = replace(ENDPOINT, secrets_sealed=vault.close("we_1", SECRETS))
    assert b"whsec" not in mine.secrets_sealed
    assert vault.open(mine) == SECRETS
    assert vault.open(replace(mine, id="we_2")) is None
    assert vault.closed_again("we_1", mine.secrets_sealed) is None, "it is under the current key"
    rotated = Vault(Keyring(Keys({"m2": b"two", "m1": b"one"})), os.urandom)
    fresh = rotated.closed_again("we_1", mine.secrets_sealed)
    assert fresh is not None
    later = Vault(Keyring(Keys({"m2": b"two"})), os.urandom)
    assert later.open(replace(mine, secrets_sealed=fresh)) == SECRETS
    assert later.open(mine) is None
    assert later.closed_again("we_1", mine.secrets_sealed) is None
