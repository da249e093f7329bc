"""Answers at rest: AES-256-GCM under a key derived from the master key, bound to the row that they belong to."""

import hashlib

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gateway.ids import Entropy

__all__ = ["Seal"]

NONCE_BYTES = 12


class Seal:
    def __init__(self, master_key: bytes, entropy: Entropy) -> None:
        self._cipher = AESGCM(hashlib.sha256(b"tollway idempotency\0" + master_key).digest())
        self._entropy = entropy

    def close(self, plain: bytes, owner: bytes) -> bytes:
        nonce = self._entropy(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, owner)

    def open(self, sealed: bytes, owner: bytes) -> bytes | None:
        """None if it was sealed under another key, or for another row."""
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], owner)
        except InvalidTag:
            return None
