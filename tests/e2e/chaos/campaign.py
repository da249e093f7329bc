"""One run: start the cluster, load it, break it, let it come to rest, and audit it."""

import asyncio
import time
from collections import Counter
from pathlib import Path

from tests.e2e.chaos.audit import Audit, until_quiet
from tests.e2e.chaos.cluster import LEASE_S, Cluster, TenantPlan, until_ok
from tests.e2e.chaos.load import Caller, Record, burst, exhaust
from tests.e2e.chaos.saboteur import POINTS, Saboteur

CALLERS = 3
"""Of each tenant."""
HARD_LIMIT = 6_000_000
"""Nano-USD: some hundred requests' worth, so that it is spent in the middle of the load."""
REFUSED_SHARE = 0.35
BURSTS = 8
RANDOM_KILL_S = 4.0


class Campaign:
    def __init__(self, home: Path, model: Path, seed: str) -> None:
        self._seed = seed
        self._plans = [
            TenantPlan("free"),
            TenantPlan("soft", limit=1_000_000, is_hard=False),
            TenantPlan("hard-1", limit=HARD_LIMIT),
            TenantPlan("hard-2", limit=HARD_LIMIT // 2),
        ]
        self._cluster = Cluster(home, model, self._plans)
        self._records: list[Record] = []
        self._saboteur = Saboteur(self._cluster, seed, self._say)
        self._began = time.monotonic()
        self.hits: Counter[str] = Counter()

    async def run(self, *, rounds: int, seconds: float) -> list[str]:
        """`rounds` of each failpoint, then random kills until `seconds` are over. Returns what is wrong."""
        try:
            await self._cluster.start()
            self._say("the cluster is up")
            await self._load_and_break(rounds, seconds)
            self.hits = self._saboteur.hits()
            return await self._rest_and_audit()
        except BaseException:
            self._keep_logs()
            raise
        finally:
            await self._cluster.destroy()

    def missed(self, rounds: int) -> dict[str, int]:
        return {point: self.hits[point] for point in POINTS if self.hits[point] < rounds}

    def table(self) -> str:
        ends = Counter(f"{record.plan.name} {record.end}" for record in self._records)
        lines = ["failpoint                  hits"]
        lines += [f"{point:26} {self.hits[point]:4}" for point in POINTS]
        lines += [f"random kills: {dict(self._saboteur.random_kills)}, outages: {self._saboteur.outages}"]
        codes = Counter(
            f"{record.status} {record.code}" for record in self._records if record.end == "failed"
        )
        lines += [f"failed: {dict(codes.most_common())}"]
        lines += [f"requests: {len(self._records)}, {dict(sorted(ends.items()))}"]
        return "\n".join(lines)

    async def _load_and_break(self, rounds: int, seconds: float) -> None:
        stopping = asyncio.Event()
        callers = [
            asyncio.create_task(self._caller(plan, str(number)).run(stopping))
            for plan in self._plans
            for number in range(CALLERS)
        ]
        began = time.monotonic()
        await self._saboteur.rounds(rounds)
        while time.monotonic() - began < seconds:
            await self._saboteur.random_round()
            await asyncio.sleep(RANDOM_KILL_S)
        stopping.set()
        await asyncio.gather(*callers)
        self._say(f"{len(self._records)} requests were made")

    async def _rest_and_audit(self) -> list[str]:
        for url in self._cluster.gateway_urls:
            await asyncio.wait_for(until_ok(f"{url}/readyz"), 60)
        for seat in self._cluster.seats:
            await asyncio.wait_for(until_ok(f"{seat.url}/ready"), 60)
        problems = await until_quiet(self._cluster)
        self._say("all is quiet")
        await burst([self._caller(plan, f"burst-{n}") for plan in self._plans for n in range(10)], BURSTS)
        await asyncio.gather(
            *(self._exhaust(plan) for plan in self._plans if plan.limit is not None and plan.is_hard)
        )
        problems += [] if problems else await until_quiet(self._cluster)
        await asyncio.sleep(LEASE_S)
        await self._cluster.stop()
        self._say("stopped")
        problems += await Audit(self._cluster, self._records).run()
        if problems:
            self._keep_logs()
        return problems

    async def _exhaust(self, plan: TenantPlan) -> None:
        await exhaust(self._caller(plan, "last"), self._records, plan, REFUSED_SHARE)

    def _caller(self, plan: TenantPlan, name: str) -> Caller:
        return Caller(plan, self._cluster.gateway_urls, f"{self._seed}-{plan.name}-{name}", self._records)

    def _say(self, what: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {what}", flush=True)

    def _keep_logs(self) -> None:
        """The ends of all logs, where pytest shows them."""
        for process in self._cluster.processes if hasattr(self._cluster, "worker") else []:
            text = process.log.read_text(errors="replace") if process.log.exists() else ""
            lines = [line for line in text.splitlines() if '"level": "info"' not in line]
            print(f"== {process.name}, {len(process.deaths)} deaths\n" + "\n".join(lines[-15:]))
