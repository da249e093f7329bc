"""A way to reach somebody: who wants a record, and how one of them is brought it.

A channel knows its own targets and transport, and nothing of outbox rows, leases or retries: those are the courier's,
the same for all. A new channel is one more of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gateway.alerts.types import Message, Record, Target
from gateway.db import WriteConnection

__all__ = ["Channel", "NotDelivered", "Undeliverable"]


class NotDelivered(Exception):
    """This attempt failed; a later one may succeed. The text says why, without secrets."""

    def __init__(self, why: str, retry_after_s: float = 0.0) -> None:
        """`retry_after_s`: the other side asked not to be tried before."""
        super().__init__(why)
        self.retry_after_s = retry_after_s


class Undeliverable(NotDelivered):
    """No attempt will ever succeed: the target itself refuses."""


class Channel(Protocol):
    @property
    def name(self) -> str:
        """What deliveries are stored under; never changes."""
        ...

    async def targets(self, connection: WriteConnection, record: Record) -> Sequence[Target]:
        """Everybody on this channel who wants the record, in the transaction that makes the deliveries."""
        ...

    async def send(self, message: Message) -> None:
        """Returns when the other side has taken it; raises NotDelivered or Undeliverable. May send twice what was
        sent before: `message.id` is how the other side can tell."""
        ...
