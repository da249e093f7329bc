"""The secrets of endpoints, sealed: what the database holds opens with the master key, and for its own endpoint only."""

from __future__ import annotations

import msgspec

from gateway.alerts.webhooks.signing import Secrets
from gateway.alerts.webhooks.types import Endpoint
from gateway.ids import Entropy
from gateway.keyring import Keyring, SecretBox

__all__ = ["PURPOSE", "Vault"]

PURPOSE = "webhooks"


class Vault:
    def __init__(self, ring: Keyring, entropy: Entropy) -> None:
        self._box = SecretBox(ring, PURPOSE, entropy)

    def open(self, endpoint: Endpoint) -> Secrets | None:
        """None if the key that they were sealed under is gone."""
        plain = self._box.open(endpoint.secrets_sealed, endpoint.id.encode())
        return msgspec.json.decode(plain, type=Secrets) if plain is not None else None

    def close(self, endpoint_id: str, secrets: Secrets) -> bytes:
        return self._box.close(msgspec.json.encode(secrets), endpoint_id.encode())

    def closed_again(self, endpoint_id: str, sealed: bytes) -> bytes | None:
        """Under the current key; None if it is already, or cannot be opened."""
        if self._box.is_current(sealed):
            return None
        plain = self._box.open(sealed, endpoint_id.encode())
        return self._box.close(plain, endpoint_id.encode()) if plain is not None else None
