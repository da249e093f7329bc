"""All watches of a worker: each source with what it reads, and how often.

Objectives are evaluated by the watch over them: what is announced and what the board shows are of one look.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from gateway.alerts.episodes import Signal
from gateway.alerts.repository import readings
from gateway.alerts.repository.episodes import resolve_spend
from gateway.alerts.sources.burn import burn_signals
from gateway.alerts.sources.others import drift_signals, endpoint_signals, export_signals, key_signals
from gateway.alerts.sources.pools import (
    down_signals,
    flapping_signals,
    kv_signals,
    latency_signals,
    preemption_signals,
    queue_signals,
)
from gateway.alerts.watch import EpisodeWatch, Look
from gateway.clock import Clock
from gateway.db import Database, WriteConnection
from gateway.ids import IdSource
from gateway.obs.metrics import Metrics
from gateway.slo.evaluator import Evaluator

__all__ = ["Watches"]

EVERY_S: Mapping[str, float] = {
    "slo.burn_rate": 15.0,
    "pool.queue_high": 10.0,
    "pool.kv_high": 10.0,
    "pool.preemptions_high": 10.0,
    "pool.latency_high": 15.0,
    "replica.down": 5.0,
    "replica.flapping": 10.0,
    "ledger.drift": 30.0,
    "export.failed": 30.0,
    "key.expiring": 60.0,
    "webhook.failing": 30.0,
}
SPEND_S = 30.0
Differences = Callable[[], Mapping[str, int | None]]
"""What the worker's own comparisons of the books last found."""
Read = Callable[[WriteConnection], Awaitable[Sequence[Signal]]]


class Watches:
    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        ids: IdSource,
        metrics: Metrics,
        differences: Differences,
    ) -> None:
        self._database = database
        self._clock = clock
        self._evaluator = Evaluator(database, clock)
        self._differences = differences
        looks: dict[str, Look] = {
            "slo.burn_rate": self._burn,
            "pool.queue_high": self._reading(self._queues),
            "pool.kv_high": self._reading(self._kv),
            "pool.preemptions_high": self._reading(self._preemptions),
            "pool.latency_high": self._reading(self._latencies),
            "replica.down": self._reading(self._down),
            "replica.flapping": self._reading(self._flapping),
            "ledger.drift": self._drift,
            "export.failed": self._reading(self._exports),
            "key.expiring": self._reading(self._keys),
            "webhook.failing": self._reading(self._endpoints),
        }
        self.watches = {
            source: EpisodeWatch(database, source, look, clock=clock, ids=ids, metrics=metrics)
            for source, look in looks.items()
        }

    def loops(self) -> list[tuple[str, float, Callable[[], Awaitable[object]]]]:
        """Name, seconds between two runs, one run."""
        found: list[tuple[str, float, Callable[[], Awaitable[object]]]] = [
            (f"alerts:{source}", EVERY_S[source], watch.run_once) for source, watch in self.watches.items()
        ]
        return [*found, ("alerts:spend", SPEND_S, self.end_spend)]

    async def end_spend(self) -> int:
        """Episodes of budgets whose period is over. They begin where spend is watched."""
        async with self._database.transaction() as connection:
            return await resolve_spend(connection, self._clock.now())

    def _reading(self, read: Read) -> Look:
        async def look() -> Sequence[Signal]:
            async with self._database.transaction() as connection:
                return await read(connection)

        return look

    async def _burn(self) -> list[Signal]:
        return burn_signals(await self._evaluator.run_once())

    async def _drift(self) -> list[Signal] | None:
        return drift_signals(self._differences())

    async def _queues(self, connection: WriteConnection) -> list[Signal]:
        now = self._clock.now()
        found = await readings.samples(connection, now)
        return queue_signals(found, await readings.serving_pools(connection), now)

    async def _kv(self, connection: WriteConnection) -> list[Signal]:
        now = self._clock.now()
        found = await readings.samples(connection, now)
        return kv_signals(found, await readings.serving_pools(connection), now)

    async def _preemptions(self, connection: WriteConnection) -> list[Signal]:
        now = self._clock.now()
        found = await readings.samples(connection, now)
        return preemption_signals(found, await readings.serving_pools(connection), now)

    async def _latencies(self, connection: WriteConnection) -> list[Signal]:
        found = await readings.end_to_end(connection, self._clock.now())
        return latency_signals(found, await readings.pool_names(connection))

    async def _down(self, connection: WriteConnection) -> list[Signal]:
        return down_signals(await readings.replica_health(connection))

    async def _flapping(self, connection: WriteConnection) -> list[Signal]:
        return flapping_signals(await readings.replica_health(connection))

    async def _exports(self, connection: WriteConnection) -> list[Signal]:
        return export_signals(await readings.failed_exports(connection, self._clock.now()))

    async def _keys(self, connection: WriteConnection) -> list[Signal]:
        now = self._clock.now()
        return key_signals(await readings.expiring_keys(connection, now), now)

    async def _endpoints(self, connection: WriteConnection) -> list[Signal]:
        return endpoint_signals(await readings.failing_endpoints(connection))
