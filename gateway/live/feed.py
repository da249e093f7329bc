"""One look at the database each second for all who watch, and the last changes kept for who comes back.

Place: under http/admin/live.py. It runs only while somebody watches: whoever waits looks, one at a time. A change says
what it is about and whom it concerns, and holds no data, so that who reads it asks for what they may see.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from gateway.clock import Clock
from gateway.db import Database
from gateway.live.repository.marks import Marks, read_marks

__all__ = ["INTERVAL_S", "KEPT", "Change", "LiveFeed", "Topic"]

INTERVAL_S = 1.0
KEPT = 256
FORGOTTEN_S = 30.0
"""Nobody has looked for so long: what has changed meanwhile is not known."""

Topic = Literal["usage", "alerts", "audit", "slo", "pools"]


@dataclass(frozen=True, slots=True)
class Change:
    """`tenants` None: it concerns nobody in particular."""

    number: int
    topic: Topic
    tenants: frozenset[str] | None = None


class LiveFeed:
    """`run` tells this process's numbers from those of another."""

    def __init__(self, database: Database, clock: Clock, run: str) -> None:
        self.run = run
        self._database = database
        self._clock = clock
        self._turn = asyncio.Lock()
        self._marks: Marks | None = None
        self._looked_at = float("-inf")
        self._changes: deque[Change] = deque(maxlen=KEPT)
        self._number = 0

    @property
    def newest(self) -> int:
        return self._number

    async def look(self) -> None:
        """Whatever has changed is known when this returns, if it was there a second ago. Raises what the database
        raises."""
        async with self._turn:
            now = self._clock.monotonic()
            if now - self._looked_at < INTERVAL_S:
                return
            async with self._database.read() as session:
                marks = await read_marks(session, self._clock.now())
            if self._marks is None or now - self._looked_at > FORGOTTEN_S:
                self._lose()
            else:
                for topic, tenants in _differences(self._marks, marks):
                    self._number += 1
                    self._changes.append(Change(self._number, topic, tenants))
            self._marks, self._looked_at = marks, now

    def since(self, number: int) -> list[Change] | None:
        """What came after it; None if that is not known any more."""
        oldest = self._changes[0].number if self._changes else self._number + 1
        if number > self._number or number + 1 < oldest:
            return None
        return [change for change in self._changes if change.number > number]

    def _lose(self) -> None:
        """Whoever asks for what was before has to read everything again."""
        self._changes.clear()
        self._number += 1


def _differences(before: Marks, after: Marks) -> Iterator[tuple[Topic, frozenset[str] | None]]:
    if fresh := after.usage - before.usage:
        yield "usage", frozenset(tenant for tenant, *_ in fresh)
    if new := after.alerts - before.alerts:
        yield "alerts", _whom(tenant for tenant, _ in new)
    if rows := after.audit - before.audit:
        yield "audit", _whom(tenant for tenant, _ in rows)
    if after.slo != before.slo:
        yield "slo", None
    if after.pools != before.pools:
        yield "pools", None


def _whom(tenants: Iterable[str | None]) -> frozenset[str] | None:
    """None as soon as one of them concerns the organisation: who sees all is told, and members are told too often."""
    found = list(tenants)
    return None if None in found else frozenset(tenant for tenant in found if tenant is not None)
