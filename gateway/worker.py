"""The background process: rollups from the outbox, journals and orphaned holds, partitions ahead, drift, exports.

Each loop stands alone: its failure is logged, counted and tried again, and holds up no other. Several workers may
run at once. It serves no request.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from gateway.alerts.channel import Channel
from gateway.alerts.courier import Courier
from gateway.alerts.mail import MailChannel
from gateway.alerts.spend import SpendWatch
from gateway.alerts.watches import Watches
from gateway.alerts.webhooks.channel import WebhookChannel
from gateway.alerts.webhooks.guard import Guard
from gateway.alerts.webhooks.sender import Sender
from gateway.alerts.webhooks.vault import Vault
from gateway.batches.files import Sweeper
from gateway.blobs import open_blobs
from gateway.clock import Clock, SystemClock
from gateway.db import Database, WriteConnection
from gateway.exports.delivery import MeterDelivery
from gateway.exports.destination import configured_store
from gateway.exports.jobs import ExportJobs
from gateway.ids import Entropy, IdSource
from gateway.ledger.batcher import commit_batch
from gateway.ledger.closing import PeriodCloser, recompute
from gateway.ledger.repository.closing import first_open_at
from gateway.ledger.repository.rollups import fold_usage
from gateway.ledger.repository.settling import ensure_partition, month_of
from gateway.ledger.service import HEARTBEAT_SILENCE_S
from gateway.ledger.settling import SettleBatch
from gateway.migrate import SchemaGuard
from gateway.obs.logging import get_logger
from gateway.obs.metrics import Metrics
from gateway.pool.sampler import SAMPLE_S, Sampler
from gateway.reconcile.http_journal import HttpJournalReader
from gateway.reconcile.service import Reconciler
from gateway.retention.service import Retention
from gateway.settings import Settings, read_secret
from gateway.slo.repository.counts import count_answers, count_refusals
from gateway.tenancy.keys import master_ring
from gateway.upstream.client import UpstreamClient

__all__ = ["Loop", "Worker", "run_worker"]

OUTBOX_BATCH = 500
POOL_SIZE = 8
"""Fewer than there are loops: most of them wait most of the time."""
MONTHS_AHEAD = 3
DRIFT_DAYS = 3
NIGHT_HOUR = 2
_ROLLUP_IDLE_S = 0.5
_REFUSALS_S = 5.0
_RECONCILE_S = 2.0
_EQUALITY_S = 30.0
_HOUR_S = 3600.0
_ALERTS_S = 5.0
_DELIVERIES_S = 1.0
_EXPORTS_S = 5.0
_FILES_S = 60.0
_METER_EVENTS_S = 5.0


@dataclass(frozen=True, slots=True)
class Loop:
    name: str
    interval_s: float
    run: Callable[[], Awaitable[object]]


class Worker:
    """Owns its database connections; `run` returns when it is cancelled."""

    def __init__(
        self,
        database: Database,
        reconciler: Reconciler,
        *,
        clock: Clock,
        metrics: Metrics,
        others: Sequence[Loop] = (),
        differences: dict[str, int | None] | None = None,
    ) -> None:
        """`others` are loops that need nothing of this class. `differences`: where it says how far rollups are from
        their events."""
        self._database = database
        self._reconciler = reconciler
        self._clock = clock
        self._metrics = metrics
        self._others = others
        self._differences = differences if differences is not None else {}
        self._log = get_logger(__name__)

    async def run(self) -> None:
        loops = (
            Loop("rollups", _ROLLUP_IDLE_S, self.fold_outbox),
            Loop("refusals", _REFUSALS_S, self.count_refusals),
            Loop("reconcile", _RECONCILE_S, self._reconcile),
            Loop("equality", _EQUALITY_S, self._check),
            Loop("partitions", _HOUR_S, self.make_partitions),
            Loop("drift", _HOUR_S, self.check_drift),
            Loop("periods", _HOUR_S, self.close_periods),
        )
        async with asyncio.TaskGroup() as group:
            for loop in (*loops, *self._others):
                group.create_task(self._repeat(loop))

    async def fold_outbox(self) -> None:
        """Until the outbox is empty, one transaction per batch."""
        while True:
            (result,) = await commit_batch(self._database, [OUTBOX_BATCH], _fold)
            if isinstance(result, Exception):
                raise result
            self._metrics.outbox_rows.labels("usage").inc(result)
            if result < OUTBOX_BATCH:
                return

    async def count_refusals(self) -> None:
        """Until all that gateways have written is counted, one transaction per batch."""
        while True:
            (result,) = await commit_batch(self._database, [OUTBOX_BATCH], _count_refusals)
            if isinstance(result, Exception):
                raise result
            if result < OUTBOX_BATCH:
                return

    async def make_partitions(self) -> None:
        async with self._database.transaction() as connection:
            await ensure_partition(connection, month_of(self._clock.now()), MONTHS_AHEAD)

    async def check_drift(self) -> None:
        """Recompute the days that are over: the rollups must come out equal. The last few each hour, at night all
        those of the open billing periods, since late events go into their own days."""
        now = self._clock.now()
        first = now - timedelta(days=DRIFT_DAYS)
        if now.hour == NIGHT_HOUR:
            async with self._database.transaction() as connection:
                first = min(first, await first_open_at(connection) or first)
        drift = await recompute(self._database, first, now)
        self._metrics.ledger_drift_nanousd.set(drift.nanousd)
        self._differences["rollups"] = drift.nanousd + drift.tokens + drift.requests
        if drift:
            self._log.error(
                "rollup_drift", nanousd=drift.nanousd, tokens=drift.tokens, requests=drift.requests
            )

    async def close_periods(self) -> None:
        await PeriodCloser(self._database).close_due(self._clock.now())

    async def _reconcile(self) -> None:
        await self._reconciler.run_once()

    async def _check(self) -> None:
        await self._reconciler.check()

    async def _repeat(self, loop: Loop) -> None:
        while True:
            try:
                await loop.run()
            except Exception:
                self._log.exception("worker_loop_failed", loop=loop.name)
                self._metrics.worker_runs.labels(loop.name, "failed").inc()
            else:
                self._metrics.worker_runs.labels(loop.name, "ok").inc()
            await asyncio.sleep(loop.interval_s)


async def run_worker(
    settings: Settings, metrics: Metrics | None = None, entropy: Entropy = os.urandom
) -> None:
    """The composition root of the worker process; runs until it is cancelled."""
    clock, metrics = SystemClock(), metrics or Metrics()
    database = Database.of(settings.database, name="tollway-worker", pool_size=POOL_SIZE, patient=True)
    # An export holds its snapshot for minutes; it takes no connection from the loops above.
    exports = Database.of(settings.database, name="tollway-exports", pool_size=3, patient=True)
    # What is sent is waited for outside of any transaction, but many sendings end together.
    outward = Database.of(settings.database, name="tollway-deliveries", pool_size=3)
    sender = Sender(Guard(settings.security.webhook_allowed_cidrs), clock)
    hooks = WebhookChannel(outward, sender, Vault(master_ring(settings.security), entropy), clock)
    client = UpstreamClient(settings.upstream)
    await client.start()
    await sender.start()
    reconciler = Reconciler(
        database,
        HttpJournalReader(client, settings.upstream.engine_key()),
        SettleBatch(IdSource(clock)),
        clock=clock,
        metrics=metrics,
        lag_s=settings.ledger.journal_lag_s,
        gateway_silence_s=HEARTBEAT_SILENCE_S,
    )
    try:
        await SchemaGuard(database).wait()
        get_logger(__name__).info("worker started")
        differences: dict[str, int | None] = {"rollups": None}
        watches = Watches(
            database,
            clock=clock,
            ids=IdSource(clock),
            metrics=metrics,
            differences=lambda: {**differences, **reconciler.differences},
        )
        spend = SpendWatch(database, clock=clock, ids=IdSource(clock), metrics=metrics)
        sampler = Sampler(database, client, clock, settings.upstream.engine_key())
        others = (
            *(Loop(*loop) for loop in watches.loops()),
            Loop("samples", SAMPLE_S, sampler.run_once),
            Loop("spend_alerts", _ALERTS_S, spend.run_once),
            _deliveries(outward, [MailChannel(settings.mail), hooks], clock, metrics, entropy),
            Loop("retention", _HOUR_S, _retention(settings, database).run_once),
            *_export_loops(settings, exports, clock, metrics),
            Loop("files", _FILES_S, _sweeper(settings, database, clock).run_once),
        )
        await Worker(
            database, reconciler, clock=clock, metrics=metrics, others=others, differences=differences
        ).run()
    finally:
        await sender.close()
        await client.close()
        await outward.close()
        await exports.close()
        await database.close()


def _retention(settings: Settings, database: Database) -> Retention:
    days = settings.ledger.events_kept_days
    return Retention(database, timedelta(days=days) if days else None)


def _sweeper(settings: Settings, database: Database, clock: Clock) -> Sweeper:
    return Sweeper(database, open_blobs(settings.server.files, settings.exports.s3_credentials_file), clock)


def _deliveries(
    database: Database, channels: Sequence[Channel], clock: Clock, metrics: Metrics, entropy: Entropy
) -> Loop:
    courier = Courier(
        database,
        channels,
        clock=clock,
        ids=IdSource(clock),
        draw=lambda bound: int.from_bytes(entropy(8), "big") % bound,
        metrics=metrics,
    )
    return Loop("deliveries", _DELIVERIES_S, courier.run_once)


def _export_loops(settings: Settings, database: Database, clock: Clock, metrics: Metrics) -> Sequence[Loop]:
    """None without a destination; meter events are sent if there is a key for that."""
    chosen = settings.exports
    store = configured_store(chosen)
    if store is None:
        return ()
    key = read_secret(None, chosen.stripe_key_file, "exports.stripe_key_file")
    ids = IdSource(clock)
    jobs = ExportJobs(database, store, ids, metrics, formats=chosen.formats, delivers=key is not None)
    loops = [Loop("exports", _EXPORTS_S, jobs.run_due)]
    if key is not None:
        delivery = MeterDelivery(database, clock, metrics, chosen.stripe_url, key.decode())
        loops.append(Loop("meter_events", _METER_EVENTS_S, delivery.run_due))
    return loops


async def _fold(connection: WriteConnection, limits: Sequence[int]) -> list[int]:
    return [await fold_usage(connection, limit, (count_answers,)) for limit in limits]


async def _count_refusals(connection: WriteConnection, limits: Sequence[int]) -> list[int]:
    return [await count_refusals(connection, limit) for limit in limits]
