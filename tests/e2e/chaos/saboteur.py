"""Kills: every named failpoint, random processes at random moments, and outages of the database.

Three hands work beside each other: one on the gateways (and their database), one on the engines, one on the worker.
What was really hit is read from the failpoints' own directories afterwards.
"""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from typing import get_args

from engine.server.failpoints import Point as EnginePoint
from gateway.obs.failpoints import HOMES
from tests.e2e.chaos.cluster import Cluster, Process, until_ok

ENGINE_POINTS: tuple[str, ...] = get_args(EnginePoint)
# Those of `batches` and `episodes` are killed in tests/gateway/batches/test_batch_death.py and
# tests/gateway/alerts/test_watch.py.
GATEWAY_POINTS, SPOOL_POINTS, WORKER_POINTS = (
    tuple(point for point, home in HOMES.items() if home == wanted)
    for wanted in ("gateway", "replay", "worker")
)
POINTS = (*GATEWAY_POINTS, *SPOOL_POINTS, *WORKER_POINTS, *ENGINE_POINTS)

HIT_S = 60.0
OUTAGE_S = 2.5
TRIES_AGAIN = 2


class Saboteur:
    def __init__(self, cluster: Cluster, seed: str, say: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)
        self._say = say
        self.random_kills: Counter[str] = Counter()
        self.outages = 0
        self._letters = 0

    def hits(self) -> Counter[str]:
        return Counter(point for process in self._cluster.processes for point in process.hits())

    async def rounds(self, count: int) -> None:
        """Each point `count` times, every hand in an order of its own; then again what was missed."""
        await asyncio.gather(self._gateways(count), self._engines(count), self._worker(count))
        for _ in range(TRIES_AGAIN):
            hits = self.hits()
            missed = [point for point in POINTS if hits[point] < count]
            if not missed:
                return
            if set(missed) & set(SPOOL_POINTS):
                await self._outage(self.outages)
            for point in missed:
                await self._again(point)

    async def random_round(self) -> None:
        """One kill that nobody has named: any process, or the server of the database."""
        cluster = self._cluster
        victim = self._random.choice(
            [*cluster.gateways, *cluster.engines, cluster.worker, "core", "postgres"]
        )
        if isinstance(victim, Process):
            politely = self._random.random() < 0.25
            self.random_kills[victim.name + (" (SIGTERM)" if politely else "")] += 1
            victim.send(signal.SIGTERM if politely else signal.SIGKILL)
        elif victim == "postgres":
            self.random_kills["postgres"] += 1
            await cluster.crash_postgres()
        else:
            pids = await cluster.engine_pids(self._random.randrange(len(cluster.engines)))
            if "core_pid" in pids:
                self.random_kills["core"] += 1
                os.kill(pids["core_pid"], signal.SIGKILL)

    # -- the hands ----------------------------------------------------------------------------------------

    async def _gateways(self, count: int) -> None:
        for number in range(count):
            for point in self._shuffled(GATEWAY_POINTS):
                await self._hit(self._random.choice(self._cluster.gateways), point)
            await self._outage(number)

    async def _engines(self, count: int) -> None:
        for _ in range(count):
            for point in self._shuffled(ENGINE_POINTS):
                await self._hit(self._random.choice(self._cluster.engines), point)
                await asyncio.sleep(1.0)  # both engines away is an outage of its own, and not meant here

    async def _worker(self, count: int) -> None:
        for _ in range(count):
            for point in self._shuffled(WORKER_POINTS):
                await self._hit(self._cluster.worker, point)

    async def _again(self, point: str) -> None:
        cluster = self._cluster
        if point == "reconcile.before_settle":  # it needs a lost gateway's hold
            await self._hit(cluster.gateways[0], "reserve.committed")
        if point in WORKER_POINTS:
            await self._hit(cluster.worker, point)
        elif point not in SPOOL_POINTS:
            kind = cluster.engines if point in ENGINE_POINTS else cluster.gateways
            await self._hit(self._random.choice(kind), point)

    async def _outage(self, number: int) -> None:
        """The gateways lose the database and spool; at its return each replay is killed, once in either place."""
        cluster = self._cluster
        for url in cluster.gateway_urls:  # one that is starting could spool nothing
            await until_ok(f"{url}/readyz")
        await asyncio.sleep(1.0)  # a key that it has never seen cannot be proved while the database is away
        self.outages += 1
        await cluster.gateways_proxy.cut()
        await asyncio.sleep(OUTAGE_S)
        first = number % 2
        targets = dict(zip(SPOOL_POINTS, (cluster.gateways[first], cluster.gateways[1 - first]), strict=True))
        for point, process in targets.items():
            process.arm(point)
        await cluster.gateways_proxy.restore()
        for point, process in targets.items():
            await self._wait(process, point)

    async def _hit(self, process: Process, point: str) -> None:
        process.arm(point)
        if point == "delivery.sent":  # on a slow machine the budgets are spent before the worker's turn comes
            self._letters += 1
            await self._cluster.expect_letters(f"more_{self._letters}", 1)
        await self._wait(process, point)

    async def _wait(self, process: Process, point: str) -> None:
        began = len(process.deaths)
        if not await _within(HIT_S, _is_gone(process, point)):
            if process.disarm(point):
                self._say(f"{point} was not reached in {process.name}")
            return
        self._say(f"{point} killed {process.name}")
        if process not in self._cluster.engines:  # an engine's API process is its supervisor's to start again
            await _within(HIT_S, _has_died(process, began))

    def _shuffled(self, points: Sequence[str]) -> list[str]:
        return self._random.sample(points, len(points))


def _is_gone(process: Process, point: str) -> Callable[[], bool]:
    return lambda: not process.is_armed(point)


def _has_died(process: Process, deaths: int) -> Callable[[], bool]:
    return lambda: len(process.deaths) > deaths


async def _within(seconds: float, reached: Callable[[], bool]) -> bool:
    for _ in range(int(seconds / 0.05)):
        if reached():
            return True
        await asyncio.sleep(0.05)
    return reached()
