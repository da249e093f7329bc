"""The sampler: every replica's queue, memory and counters, every ten seconds, as rows. For the worker.

Place: between the engines and whoever charts pools or watches them. All workers sample at the same moments, so that what
two of them ask at once is one row. A replica that does not answer has no row: it is not known to be idle. Asks for
metrics alone, which generates nothing and costs the engine nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from gateway.clock import Clock
from gateway.db import Database
from gateway.pool.samples import Sampled, SampleRow, sampled_replicas, write_samples
from gateway.upstream.client import UpstreamClient, UpstreamError
from gateway.upstream.native import authorization
from gateway.wire.load import read_counters, read_exposition

__all__ = ["SAMPLE_S", "Sampler"]

SAMPLE_S: Final = 10
TIMEOUT_S: Final = 3.0
AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True)
class Sampler:
    """`key` is what our engines, and others that we start, take; one that somebody else runs never sees it."""

    database: Database
    client: UpstreamClient
    clock: Clock
    key: str | None

    async def run_once(self) -> int:
        """How many replicas answered."""
        async with self.database.transaction() as connection:
            replicas = await sampled_replicas(connection)
        at = moment(self.clock.now())
        gate = asyncio.Semaphore(AT_ONCE)

        async def ask(replica: Sampled) -> SampleRow | None:
            async with gate:
                return await self._ask(replica, at)

        answers = await asyncio.gather(*(ask(replica) for replica in replicas))
        rows = [row for row in answers if row is not None]
        if rows:
            async with self.database.transaction() as connection:
                await write_samples(connection, rows)
        return len(rows)

    async def _ask(self, replica: Sampled, at: datetime) -> SampleRow | None:
        headers = {} if replica.kind == "external" else authorization(self.key)
        url = f"{replica.url.rstrip('/')}/metrics"
        try:
            status, raw = await self.client.fetch("GET", url, headers, None, TIMEOUT_S)
        except UpstreamError:
            return None
        said = raw.decode(errors="replace")
        load = read_exposition(said) if status == 200 else None
        if load is None:
            return None
        counters = read_counters(said)
        return SampleRow(
            at=at,
            replica_id=replica.id,
            pool_id=replica.pool_id,
            running=load.running,
            waiting=load.waiting,
            kv_usage=load.kv_usage,
            preemptions=counters.preemptions,
            tokens=counters.tokens,
        )


def moment(now: datetime) -> datetime:
    """The last whole multiple of the interval."""
    return datetime.fromtimestamp(int(now.timestamp()) // SAMPLE_S * SAMPLE_S, UTC)
