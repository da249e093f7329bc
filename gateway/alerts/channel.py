"""A way to reach somebody: who wants a record, and how one of them is brought it.

A channel knows its own targets and transport, and nothing of outbox rows, leases or retries: those are the courier's,
the same for all. A new channel is one more of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from gateway.alerts.types import Message, Record, Target
from gateway.db import WriteConnection

__all__ = ["Channel", "NotDelivered", "Postponed", "Receipt", "Undeliverable"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the other side said when it took a message, as far as its protocol says anything."""

    status: int | None = None
    answer: str | None = None


class NotDelivered(Exception):
    """This attempt failed; a later one may succeed. The text says why, without secrets."""

    def __init__(self, why: str, retry_after_s: float = 0.0, receipt: Receipt | None = None) -> None:
        """`retry_after_s`: the other side asked not to be tried before. `receipt`: what it said."""
        super().__init__(why)
        self.retry_after_s = retry_after_s
        self.receipt = receipt or Receipt()


class Undeliverable(NotDelivered):
    """No attempt will ever succeed: the target itself refuses."""


class Postponed(Exception):
    """Nothing was tried, and it counts as nothing: the target has asked for time."""

    def __init__(self, until: datetime) -> None:
        super().__init__(f"not before {until.isoformat()}")
        self.until = until


class Channel(Protocol):
    @property
    def name(self) -> str:
        """What deliveries are stored under; never changes."""
        ...

    @property
    def lease_s(self) -> float:
        """No attempt takes longer: after it the message is sent again."""
        ...

    @property
    def in_flight_max(self) -> int:
        """How many messages one process sends at the same time."""
        ...

    @property
    def per_target_max(self) -> int:
        """How many of them to one target, so that a slow one leaves room for the others."""
        ...

    async def targets(self, connection: WriteConnection, record: Record) -> Sequence[Target]:
        """Everybody on this channel who wants the record, in the transaction that makes the deliveries."""
        ...

    async def send(self, message: Message) -> Receipt:
        """Returns when the other side has taken it; raises NotDelivered, Undeliverable or Postponed. May send twice
        what was sent before: `message.id` is how the other side can tell."""
        ...

    async def failed(
        self, connection: WriteConnection, message: Message, error: NotDelivered, *, is_over: bool
    ) -> None:
        """What follows for the target, in the transaction that marks the attempt; `is_over`: it was the last one."""
        ...
