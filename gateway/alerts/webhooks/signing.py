"""Secrets of endpoints and the signatures made with them, as Standard Webhooks writes them. Pure but for the entropy.

A secret is `whsec_` and 32 bytes in base64. While a replaced one is kept, a message carries both signatures, and the
receiver accepts whichever it knows. It does not know where secrets are stored.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from gateway.ids import Entropy

__all__ = ["OVERLAP", "Secrets", "hint_of", "new_secret", "signed"]

PREFIX = "whsec_"
SECRET_BYTES = 32
OVERLAP = timedelta(hours=24)
HINT_CHARS = 4


class Secrets(msgspec.Struct, frozen=True):
    """What one endpoint's messages are made with; sealed as one."""

    current: str
    previous: str | None = None
    previous_until: datetime | None = None
    routing_key: str | None = None

    def __repr__(self) -> str:
        return "Secrets(…)"

    def active(self, now: datetime) -> tuple[str, ...]:
        """The newest first."""
        keeps = self.previous is not None and self.previous_until is not None and now < self.previous_until
        return (self.current, self.previous) if keeps and self.previous is not None else (self.current,)

    def rotated(self, entropy: Entropy, keep_until: datetime | None) -> Secrets:
        """With a new one. The one that it replaces stays until then, or goes at once; an older one goes at once."""
        previous = self.current if keep_until is not None else None
        return Secrets(new_secret(entropy), previous, keep_until, self.routing_key)


def new_secret(entropy: Entropy) -> str:
    return PREFIX + base64.b64encode(entropy(SECRET_BYTES)).decode()


def hint_of(secret: str) -> str:
    """Enough for its owner to recognise it by."""
    return f"{PREFIX}***{secret.rstrip('=')[-HINT_CHARS:]}"


def signed(message_id: str, body: bytes, secrets: Sequence[str], now: datetime) -> Mapping[str, str]:
    """The three headers. Receivers refuse a time that is more than five minutes off: each attempt is signed anew."""
    timestamp = str(int(now.timestamp()))
    content = b".".join((message_id.encode(), timestamp.encode(), body))
    signatures = (hmac.digest(_key(secret), content, "sha256") for secret in secrets)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{base64.b64encode(one).decode()}" for one in signatures),
    }


def _key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(PREFIX))
