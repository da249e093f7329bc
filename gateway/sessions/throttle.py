"""How long somebody who keeps failing to sign in has to wait. Pure.

Counted per account and per address. An attempt counts before it is judged, so that many at once do not pass; success
takes it back. An account without a user behind it is counted like any other.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address

__all__ = [
    "ACCOUNT_FREE",
    "ADDRESS_FREE",
    "FORGOTTEN_AFTER",
    "WAIT_S_MAX",
    "Attempts",
    "after_attempt",
    "subjects",
]

ACCOUNT_FREE = 8
"""Attempts in a row before there is any wait."""
ADDRESS_FREE = 30
WAIT_S_MAX = 900
FORGOTTEN_AFTER = timedelta(hours=1)
"""Without another attempt. Longer than any wait."""


@dataclass(frozen=True, slots=True)
class Attempts:
    failures: int
    last_at: datetime
    blocked_until: datetime


def after_attempt(seen: Attempts | None, now: datetime, free: int) -> Attempts | None:
    """None: it comes too early. Beyond `free` attempts each wait is twice the one before it."""
    if seen is not None and now < seen.blocked_until:
        return None
    known = seen.failures if seen is not None and now - seen.last_at < FORGOTTEN_AFTER else 0
    failures = known + 1
    wait_s = min(2 ** min(failures - free, 16), WAIT_S_MAX) if failures >= free else 0
    return Attempts(failures, now, now + timedelta(seconds=wait_s))


def subjects(key: bytes, email: str, address: str | None) -> tuple[bytes, bytes]:
    """What an account's and an address's attempts are stored under: keyed hashes, so that the table names nobody."""
    return _hash(key, "account", email.strip().lower()), _hash(key, "address", _network(address))


def _network(address: str | None) -> str:
    """Whoever has one IPv6 address has 2^64 of them."""
    try:
        found = ip_address(address or "")
    except ValueError:
        return "unknown"
    return str(int(found) >> 64) if isinstance(found, IPv6Address) else str(found)


def _hash(key: bytes, kind: str, value: str) -> bytes:
    return hmac.digest(key, f"{kind}\0{value}".encode(), hashlib.sha256)
