"""Retention: what has been kept long enough goes, in small steps, oldest first.

One pass does a bounded amount of work; what is left waits for the next. Events go by whole months, only from closed
and exported ones, and only if the operator set a time. Safe to run in several processes.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from gateway.db import Database, WriteConnection
from gateway.ledger.horizon import GUARD_KEPT
from gateway.obs.logging import get_logger
from gateway.retention import policy
from gateway.retention.repository import pruning

__all__ = ["Retention"]

ROWS_PER_STEP = 20_000
STEPS_PER_PASS = 250

Step = Callable[[WriteConnection], Awaitable[int]]


class Retention:
    def __init__(self, database: Database, events_kept: timedelta | None) -> None:
        """`events_kept` None: for ever."""
        self._database = database
        self._events_kept = events_kept
        self._log = get_logger(__name__)

    async def run_once(self) -> dict[str, int]:
        """How many rows went, by table; for usage_event how many months."""
        gone = {"usage_event": await self._drop_months()}
        for table, step in self._steps().items():
            gone[table] = await self._repeat(step)
        if any(gone.values()):
            self._log.info("pruned", **{table: rows for table, rows in gone.items() if rows})
        return gone

    def _steps(self) -> dict[str, Step]:
        limit = ROWS_PER_STEP
        return {
            "settled_request": lambda c: pruning.prune_guards(c, GUARD_KEPT, limit),
            "attempt": lambda c: pruning.prune_attempts(c, limit),
            "journal_attempt": lambda c: pruning.prune_journal_rows(
                c, policy.JOURNAL_ROWS_KEPT, GUARD_KEPT, limit
            ),
            "rollup_minute": lambda c: pruning.prune_minutes(c, policy.MINUTES_KEPT, limit),
            "refusal_minute": lambda c: pruning.prune_refusals(c, policy.REFUSALS_KEPT, limit),
            **{table: _bucket_step(table, limit) for table in pruning.BUCKET_TABLES},
            "replica_sample": lambda c: pruning.prune_samples(c, policy.SAMPLES_KEPT, limit),
            "delivery": lambda c: pruning.prune_deliveries(c, policy.DELIVERIES_KEPT, limit),
            "alert_firing": lambda c: pruning.prune_firings(c, policy.FIRINGS_KEPT, limit),
            "budget_refusal": lambda c: pruning.prune_budget_refusals(c, policy.FIRINGS_KEPT, limit),
            "batch": lambda c: pruning.prune_batches(c, policy.BATCHES_KEPT, limit),
            "idempotent_request": lambda c: pruning.prune_idempotent_requests(c, limit),
            "console_session": lambda c: pruning.prune_sessions(c, policy.SESSIONS_KEPT, limit),
            "login_attempts": lambda c: pruning.prune_logins(c, limit),
            "gateway_instance": lambda c: pruning.prune_instances(c, policy.INSTANCES_KEPT),
            "engine_epoch": lambda c: pruning.prune_epochs(c, policy.EPOCHS_KEPT),
        }

    async def _repeat(self, step: Step) -> int:
        """A transaction per step: nobody waits long for its locks."""
        total = 0
        for _ in range(STEPS_PER_PASS):
            async with self._database.transaction() as connection:
                await pruning.allow_time(connection)
                rows = await step(connection)
            total += rows
            if rows < ROWS_PER_STEP:
                break
        return total

    async def _drop_months(self) -> int:
        if self._events_kept is None:
            return 0
        async with self._database.transaction() as connection:
            months = await pruning.oldest_usage_months(connection)
        dropped = 0
        for month in months:
            async with self._database.transaction() as connection:
                if not await pruning.drop_usage_partition(connection, month, self._events_kept):
                    break  # the oldest first: months are kept without a gap
            self._log.warning("usage_partition_dropped", month=month.isoformat()[:7])
            dropped += 1
        return dropped


def _bucket_step(table: str, limit: int) -> Step:
    kept = policy.SLO_MINUTES_KEPT if table.endswith("_minute") else policy.SLO_HOURS_KEPT
    return lambda connection: pruning.prune_buckets(connection, table, kept, limit)
