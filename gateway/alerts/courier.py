"""The courier: announced records become deliveries, and deliveries are sent until they have arrived.

At least once: a delivery is leased in one transaction, sent outside of any, and marked in another. Whoever dies in
between leaves a lease that runs out, and the next attempt carries the same message id. Any number of workers may run
one. A slow target holds up neither the others nor what is announced meanwhile: messages are leased as others end, a
few at a time to each target. It knows channels by their protocol alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from gateway.alerts.backoff import delay_s
from gateway.alerts.channel import Channel, NotDelivered, Postponed, Receipt, Undeliverable
from gateway.alerts.repository.deliveries import (
    Attempt,
    NewDelivery,
    Wanted,
    add,
    lease,
    mark_delivered,
    mark_failed,
    mark_postponed,
    note_attempt,
    take_announced,
)
from gateway.alerts.types import Message
from gateway.clock import Clock
from gateway.db import Database, WriteConnection
from gateway.ids import IdSource
from gateway.obs.failpoints import failpoint
from gateway.obs.logging import get_logger
from gateway.obs.metrics import Metrics

__all__ = ["Courier"]

ANNOUNCED_MAX = 100
LOOK_S = 1.0
"""How long what is announced waits at most while messages are in flight."""
STRAY_LEASE_S = 60.0
STRAYS_MAX = 8
"""Messages of channels that are not configured here, looked at together."""
ERROR_CHARS_MAX = 500


class Courier:
    def __init__(
        self,
        database: Database,
        channels: Sequence[Channel],
        *,
        clock: Clock,
        ids: IdSource,
        draw: Callable[[int], int],
        metrics: Metrics,
    ) -> None:
        self._database = database
        self._channels = {channel.name: channel for channel in channels}
        self._clock = clock
        self._ids = ids
        self._draw = draw
        self._metrics = metrics
        self._in_flight: dict[asyncio.Task[None], Message] = {}
        self._log = get_logger(__name__)

    async def run_once(self) -> int:
        """Sends everything that is due, and what becomes due before the last of it has ended; how many attempts that
        were. Cancelled, it lets go of what is in flight: the leases bring it back."""
        attempts = 0
        try:
            while True:
                while await self._address() == ANNOUNCED_MAX:
                    pass
                attempts += await self._start()
                if not self._in_flight:
                    return attempts
                done, _ = await asyncio.wait(
                    self._in_flight, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED
                )
                self._collect(done)
        except asyncio.CancelledError:
            await self._let_go()
            raise

    def _collect(self, done: set[asyncio.Task[None]]) -> None:
        """Raises what was ours or the database's; the lease brings its message back."""
        failures = [task.exception() for task in done]
        for task in done:
            del self._in_flight[task]
        for failure in filter(None, failures):
            raise failure

    async def _let_go(self) -> None:
        for task in self._in_flight:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._in_flight, return_exceptions=True)
        self._in_flight.clear()

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

    async def _start(self) -> int:
        """As many messages as there is room for."""
        counts = Counter(message.channel for message in self._in_flight.values())
        known = [*self._channels]
        async with self._database.transaction() as connection:
            messages = await lease(connection, Wanted(None, STRAYS_MAX, STRAY_LEASE_S, STRAYS_MAX, [], known))
            for name, channel in self._channels.items():
                room = channel.in_flight_max - counts[name]
                if room > 0:
                    busy = sorted({one.target.key for one in self._in_flight.values() if one.channel == name})
                    wanted = Wanted(name, room, channel.lease_s, channel.per_target_max, busy, known)
                    messages += await lease(connection, wanted)
        for message in messages:
            self._in_flight[asyncio.create_task(self._deliver(message))] = message
        return len(messages)

    async def _deliver(self, message: Message) -> None:
        started = self._clock.monotonic()
        channel = self._channels.get(message.channel)
        try:
            if channel is None:
                raise NotDelivered(f"no {message.channel} channel is configured")
            receipt = await channel.send(message)
        except Postponed as later:
            async with self._database.transaction() as connection:
                await mark_postponed(connection, message, later.until)
            self._metrics.deliveries.labels(message.channel, "postponed").inc()
            return
        except NotDelivered as error:
            await self._failed(channel, message, error, started)
            return
        failpoint("delivery.sent")
        async with self._database.transaction() as connection:
            await self._note(connection, message, started, receipt, None)
            await mark_delivered(connection, message)
        self._metrics.deliveries.labels(message.channel, "delivered").inc()

    async def _failed(
        self, channel: Channel | None, message: Message, error: NotDelivered, started: float
    ) -> None:
        is_final = isinstance(error, Undeliverable)
        delay = None if is_final else delay_s(message.tries, self._draw, error.retry_after_s)
        async with self._database.transaction() as connection:
            await self._note(connection, message, started, error.receipt, error)
            is_mine = await mark_failed(connection, message, str(error)[:ERROR_CHARS_MAX], delay)
            if is_mine and channel is not None:
                await channel.failed(connection, message, error, is_over=delay is None)
        outcome = "given_up" if delay is None else "failed"
        self._metrics.deliveries.labels(message.channel, outcome).inc()
        self._log.warning(
            "delivery_failed", delivery=message.id, attempt=message.attempt, outcome=outcome, error=str(error)
        )

    async def _note(
        self,
        connection: WriteConnection,
        message: Message,
        started: float,
        receipt: Receipt,
        error: NotDelivered | None,
    ) -> None:
        duration_ms = max(0, round((self._clock.monotonic() - started) * 1000))
        why = str(error)[:ERROR_CHARS_MAX] if error is not None else None
        await note_attempt(connection, message, Attempt(duration_ms, receipt.status, why, receipt.answer))
