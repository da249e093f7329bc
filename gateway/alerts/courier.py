"""The courier: announced records become deliveries, and deliveries are sent until they have arrived.

At least once: a delivery is leased in one transaction, sent outside of any, and marked in another. Whoever dies in
between leaves a lease that runs out, and the next attempt carries the same message id. Any number of workers may run
one. It knows channels by their protocol alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from gateway.alerts.backoff import delay_s
from gateway.alerts.channel import Channel, NotDelivered, Undeliverable
from gateway.alerts.repository.deliveries import (
    NewDelivery,
    add,
    lease,
    mark_delivered,
    mark_failed,
    take_announced,
)
from gateway.alerts.types import Message
from gateway.db import Database
from gateway.ids import IdSource
from gateway.obs.failpoints import failpoint
from gateway.obs.logging import get_logger
from gateway.obs.metrics import Metrics

__all__ = ["Courier"]

ANNOUNCED_MAX = 100
IN_FLIGHT_MAX = 8
ERROR_CHARS_MAX = 500


class Courier:
    """`lease_s` is longer than any channel takes for one message: after it the message is sent again."""

    def __init__(
        self,
        database: Database,
        channels: Sequence[Channel],
        *,
        ids: IdSource,
        draw: Callable[[int], int],
        metrics: Metrics,
        lease_s: float,
    ) -> None:
        self._database = database
        self._channels = {channel.name: channel for channel in channels}
        self._ids = ids
        self._draw = draw
        self._metrics = metrics
        self._lease_s = lease_s
        self._log = get_logger(__name__)

    async def run_once(self) -> int:
        """Sends everything that is due; how many attempts that were."""
        while await self._address() == ANNOUNCED_MAX:
            pass
        attempts = 0
        while True:
            async with self._database.transaction() as connection:
                messages = await lease(connection, IN_FLIGHT_MAX, self._lease_s)
            done = await asyncio.gather(
                *(self._deliver(message) for message in messages), return_exceptions=True
            )
            for outcome in done:
                if outcome is not None:  # ours or the database's; the lease brings the message back
                    raise outcome
            attempts += len(messages)
            if len(messages) < IN_FLIGHT_MAX:
                return attempts

    async def _address(self) -> int:
        """One delivery per channel and target, in the transaction that takes the outbox row away."""
        async with self._database.transaction() as connection:
            records = await take_announced(connection, ANNOUNCED_MAX)
            wanted = [
                NewDelivery(
                    self._ids.new("delivery"), record.id, channel.name, target.key, dict(target.address)
                )
                for record in records
                for channel in self._channels.values()
                for target in await channel.targets(connection, record)
            ]
            if wanted:
                await add(connection, wanted)
        self._metrics.outbox_rows.labels("alert").inc(len(records))
        return len(records)

    async def _deliver(self, message: Message) -> None:
        channel = self._channels.get(message.channel)
        try:
            if channel is None:
                raise NotDelivered(f"no {message.channel} channel is configured")
            await channel.send(message)
        except NotDelivered as error:
            await self._failed(message, error)
            return
        failpoint("delivery.sent")
        async with self._database.transaction() as connection:
            await mark_delivered(connection, message)
        self._metrics.deliveries.labels(message.channel, "delivered").inc()

    async def _failed(self, message: Message, error: NotDelivered) -> None:
        is_final = isinstance(error, Undeliverable)
        delay = None if is_final else delay_s(message.attempt, self._draw, error.retry_after_s)
        async with self._database.transaction() as connection:
            await mark_failed(connection, message, str(error)[:ERROR_CHARS_MAX], delay)
        outcome = "given_up" if delay is None else "failed"
        self._metrics.deliveries.labels(message.channel, outcome).inc()
        self._log.warning(
            "delivery_failed", delivery=message.id, attempt=message.attempt, outcome=outcome, error=str(error)
        )
