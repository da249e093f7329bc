"""The fleet: start it, learn the right answers, kill or restart replicas under load, and audit."""

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import aiohttp

from tests.e2e.chaos.audit import Audit, until_quiet
from tests.e2e.chaos.cluster import INTERNAL_KEY, Cluster, TenantPlan, until_ok
from tests.e2e.fleet.load import Answer, Ask, Callers, asks

ENGINES = 3
CALLERS = 6
READY_S = 120.0
FLAGS = ("--batch-invariant",)


class Fleet:
    def __init__(self, home: Path, model: Path, seed: str) -> None:
        self.plan = TenantPlan("free")
        self.cluster = Cluster(
            home, model, [self.plan], num_engines=ENGINES, num_gateways=1, engine_flags=FLAGS
        )
        self.asks = asks(seed)
        self.callers: Callers
        self.kills: list[int] = []
        self._seed = seed
        self._draw = random.Random(seed)

    async def start(self) -> None:
        await self.cluster.start()
        self.callers = Callers(self.cluster.gateway_urls[0], self.plan, self._seed)
        await asyncio.wait_for(self._until_all_are_met(), READY_S)
        await self.callers.learn(self.asks)

    async def undisturbed(self, seconds: float) -> list[Answer]:
        return await self._under_load(lambda: asyncio.sleep(seconds))

    async def killing(self, kills: int, seconds: float = 0.0) -> list[Answer]:
        """`kill -9` of one engine at a time, drawn at random, until there were so many and the time is over."""
        began = time.monotonic()

        async def kill() -> None:
            while len(self.kills) < kills or time.monotonic() - began < seconds:
                await asyncio.sleep(self._draw.uniform(0.5, 1.5))
                number = self._draw.randrange(ENGINES)
                await self._end(number, signal.SIGKILL)
                self.kills.append(number)

        return await self._under_load(kill)

    async def rolling(self) -> list[Answer]:
        """Each engine once is told to drain, ends, and is started again."""

        async def restart() -> None:
            for number in range(ENGINES):
                await self._end(number, signal.SIGTERM)
                await asyncio.sleep(0.5)

        return await self._under_load(restart)

    async def running(self) -> list[dict[str, float]]:
        """What each engine says of itself."""
        headers = {"authorization": f"Bearer {INTERNAL_KEY}"}
        found = []
        async with aiohttp.ClientSession(headers=headers) as client:
            for seat in self.cluster.seats:
                async with client.get(f"{seat.url}/internal/status") as answer:
                    found.append(await answer.json())
        return found

    async def audit(self) -> list[str]:
        """Ends the processes: journals are read from the disks."""
        problems = await until_quiet(self.cluster)
        await self.cluster.stop()
        return problems + await Audit(self.cluster, self.callers.records).tokens()

    async def _until_all_are_met(self) -> None:
        """The gateway has heard from each engine that it is ready."""
        async with aiohttp.ClientSession() as client:
            while True:
                answers = await asyncio.gather(
                    *(self.callers.once(client, self.asks[0]) for _ in range(ENGINES))
                )
                if all(answer.record.end == "complete" for answer in answers):
                    return
                await asyncio.sleep(0.5)

    async def _under_load(self, trouble: Callable[[], Awaitable[None]]) -> list[Answer]:
        stopping = asyncio.Event()
        load = asyncio.create_task(self.callers.go_on(self.asks, stopping, CALLERS))
        try:
            await trouble()
        finally:
            stopping.set()
            answers = await load
        return answers

    async def _end(self, number: int, signum: signal.Signals) -> None:
        """The next one is not ended before this one is back."""
        engine = self.cluster.engines[number]
        deaths = len(engine.deaths)
        engine.send(signum)
        async with asyncio.timeout(READY_S):
            while len(engine.deaths) == deaths:  # noqa: ASYNC110  # a process has no event
                await asyncio.sleep(0.05)
            await until_ok(f"{self.cluster.seats[number].url}/ready")


def wrong(answers: Sequence[Answer]) -> list[str]:
    return [str(answer) for answer in answers if not answer.is_right]


def streams_of(known: Sequence[Ask]) -> list[Ask]:
    return [ask for ask in known if ask.is_stream]
