"""Identifiers: their types, and how new ones are made.

Ids are made in the application, never by the database (`uuidv7()` exists only from PostgreSQL 18 on).
Randomness and the clock are parameters. This module does not know what any id refers to.
"""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NewType
from uuid import UUID

from gateway.clock import Clock, SystemClock

__all__ = [
    "Entropy",
    "GatewayId",
    "IdSource",
    "KeyId",
    "PoolId",
    "ReplicaId",
    "RequestId",
    "RouteId",
    "ServiceAccountId",
    "TenantId",
    "UserId",
    "new_id",
    "uuid7",
]

TenantId = NewType("TenantId", str)
ServiceAccountId = NewType("ServiceAccountId", str)
KeyId = NewType("KeyId", str)
RequestId = NewType("RequestId", str)
PoolId = NewType("PoolId", str)
RouteId = NewType("RouteId", str)
ReplicaId = NewType("ReplicaId", str)
GatewayId = NewType("GatewayId", str)
UserId = NewType("UserId", str)

Entropy = Callable[[int], bytes]
"""Returns that many unpredictable bytes; `os.urandom` in production, seeded in tests."""

_SYSTEM_CLOCK = SystemClock()
_RANDOM_BITS = 62
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_S = 86_400


def uuid7(clock: Clock, entropy: Entropy = os.urandom) -> UUID:
    """A time-ordered UUID (RFC 9562, version 7) with the microseconds in `rand_a`.

    Two ids of the same microsecond are unordered; `IdSource` orders those too.
    """
    return _assemble(_ticks(clock), _random_bits(entropy))


def new_id(prefix: str, clock: Clock = _SYSTEM_CLOCK, entropy: Entropy = os.urandom) -> str:
    """A prefixed, time-ordered id such as `req_0197a3c2…`."""
    return f"{prefix}_{uuid7(clock, entropy).hex}"


class IdSource:
    """Makes ids that strictly increase within this process, even if the wall clock steps back."""

    def __init__(self, clock: Clock = _SYSTEM_CLOCK, entropy: Entropy = os.urandom) -> None:
        self.clock = clock
        self._entropy = entropy
        self._last_ticks = -1

    def uuid7(self) -> UUID:
        self._last_ticks = max(_ticks(self.clock), self._last_ticks + 1)
        return _assemble(self._last_ticks, _random_bits(self._entropy))

    def new(self, prefix: str) -> str:
        return f"{prefix}_{self.uuid7().hex}"


def _ticks(clock: Clock) -> int:
    """Time in 1/4096 ms, the resolution of the 48 + 12 time bits of the layout."""
    since = clock.now() - _EPOCH
    microseconds = (since.days * _DAY_S + since.seconds) * 1_000_000 + since.microseconds
    return (microseconds << 12) // 1000


def _random_bits(entropy: Entropy) -> int:
    return int.from_bytes(entropy(8), "big") >> (64 - _RANDOM_BITS)


def _assemble(ticks: int, random: int) -> UUID:
    unix_ms, fraction = ticks >> 12, ticks & 0xFFF
    return UUID(int=unix_ms << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | random)
