"""Pruning in bounded steps. What protects the money (guards, attempts, partitions) goes through functions of the
database that check their own conditions: the application holds no right to delete there.
"""

from datetime import date, timedelta

from sqlalchemy import text

from gateway.db import WriteConnection
from gateway.ledger.periods import PREPAID_KEY

__all__ = [
    "BUCKET_TABLES",
    "allow_time",
    "drop_usage_partition",
    "oldest_usage_months",
    "prune_attempts",
    "prune_batches",
    "prune_buckets",
    "prune_budget_refusals",
    "prune_deliveries",
    "prune_epochs",
    "prune_firings",
    "prune_guards",
    "prune_idempotent_requests",
    "prune_instances",
    "prune_journal_rows",
    "prune_logins",
    "prune_minutes",
    "prune_refusals",
    "prune_samples",
    "prune_sessions",
]

_INSTANCES = text(
    """
    DELETE FROM gateway_instance g WHERE coalesce(g.stopped_at, g.heartbeat_at) < now() - CAST(:kept AS interval)
        AND NOT EXISTS (SELECT FROM hold h WHERE h.instance_id = g.instance_id)
    """
)
_SESSIONS = text(
    """
    DELETE FROM console_session WHERE ctid IN (
        SELECT ctid FROM console_session WHERE expires_at < now() - CAST(:kept AS interval) LIMIT :limit
    )
    """
)
_LOGINS = text(
    """
    DELETE FROM login_attempts WHERE ctid IN (
        SELECT ctid FROM login_attempts WHERE last_at < now() - interval '1 day' LIMIT :limit
    )
    """
)
_EPOCHS = text("DELETE FROM engine_epoch WHERE last_seen_at < now() - CAST(:kept AS interval)")
# What differs stays on view for as long as its guard is kept, what was never matched too.
_JOURNAL_ROWS = text(
    """
    DELETE FROM journal_attempt WHERE ctid IN (
        SELECT ctid FROM journal_attempt
        WHERE read_at < now() - CASE WHEN matched_at IS NOT NULL AND drift_tokens = 0
            THEN CAST(:kept AS interval) ELSE CAST(:kept_unmatched AS interval) END
        LIMIT :limit)
    """
)
# Those of open periods stay, however old: a period closes by being recomputed.
_MINUTES = text(
    """
    DELETE FROM rollup_minute WHERE ctid IN (
        SELECT ctid FROM rollup_minute
        WHERE bucket < now() - CAST(:kept AS interval) AND bucket < (SELECT max(ends_at) FROM billing_period)
        LIMIT :limit)
    """
)
_REFUSALS = text(
    """
    DELETE FROM refusal_minute WHERE ctid IN (
        SELECT ctid FROM refusal_minute WHERE bucket < now() - CAST(:kept AS interval) LIMIT :limit)
    """
)
BUCKET_TABLES = ("slo_minute", "slo_hour", "latency_minute", "latency_hour")
_BUCKETS = {
    table: text(
        f"""
        DELETE FROM {table} WHERE ctid IN (
            SELECT ctid FROM {table} WHERE bucket < now() - CAST(:kept AS interval) LIMIT :limit)
        """
    )
    for table in BUCKET_TABLES
}
_SAMPLES = text(
    """
    DELETE FROM replica_sample WHERE ctid IN (
        SELECT ctid FROM replica_sample WHERE at < now() - CAST(:kept AS interval) LIMIT :limit)
    """
)
_DELIVERIES = text(
    """
    DELETE FROM delivery WHERE ctid IN (
        SELECT ctid FROM delivery
        WHERE next_attempt_at IS NULL AND created_at < now() - CAST(:kept AS interval) LIMIT :limit)
    """
)
# A prepaid budget's one period has no end: what was told of it stays told.
_FIRINGS = text(
    f"""
    DELETE FROM alert_firing WHERE ctid IN (
        SELECT ctid FROM alert_firing
        WHERE period_key <> '{PREPAID_KEY}' AND fired_at < now() - CAST(:kept AS interval) LIMIT :limit)
    """
)
_BUDGET_REFUSALS = text(
    f"""
    DELETE FROM budget_refusal WHERE ctid IN (
        SELECT ctid FROM budget_refusal
        WHERE period_key <> '{PREPAID_KEY}' AND refused_at < now() - CAST(:kept AS interval) LIMIT :limit)
    """
)
_IDEMPOTENT = text(
    """
    DELETE FROM idempotent_request WHERE ctid IN (
        SELECT ctid FROM idempotent_request WHERE expires_at < now() LIMIT :limit)
    """
)
_BATCHES = text(
    """
    DELETE FROM batch WHERE ctid IN (
        SELECT ctid FROM batch WHERE coalesce(completed_at, failed_at, expired_at, cancelled_at)
            < now() - CAST(:kept AS interval) LIMIT :limit)
    """
)
_PARTITIONS = text(
    """
    SELECT to_date(right(relname, 7), 'YYYY_MM') FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
    WHERE i.inhparent = 'usage_event'::regclass AND relname ~ '^usage_event_[0-9]{4}_[0-9]{2}$' ORDER BY 1
    """
)


async def allow_time(connection: WriteConnection) -> None:
    """For looking through large tables."""
    await connection.execute(text("SET LOCAL statement_timeout = '2min'"))


async def prune_idempotent_requests(connection: WriteConnection, limit: int) -> int:
    """Keys that have expired, with the answers under them."""
    return (await connection.execute(_IDEMPOTENT, {"limit": limit})).rowcount


async def prune_batches(connection: WriteConnection, kept: timedelta, limit: int) -> int:
    """Those that have ended."""
    return (await connection.execute(_BATCHES, {"kept": kept, "limit": limit})).rowcount


async def prune_guards(connection: WriteConnection, kept: timedelta, limit: int) -> int:
    """Rows of settled_request older than `kept`; the database refuses a time in which evidence may still come."""
    statement = text("SELECT prune_settled_requests(CAST(:kept AS interval), :limit)")
    return int((await connection.execute(statement, {"kept": kept, "limit": limit})).scalar_one())


async def prune_attempts(connection: WriteConnection, limit: int) -> int:
    """Attempts recorded before the oldest month whose events are kept."""
    statement = text("SELECT prune_attempts(:limit)")
    return int((await connection.execute(statement, {"limit": limit})).scalar_one())


async def drop_usage_partition(connection: WriteConnection, month: date, kept: timedelta) -> bool:
    """The events of a month go, if it is closed, exported whole, and ended `kept` ago; else false."""
    statement = text("SELECT drop_usage_partition(:month, CAST(:kept AS interval))")
    return bool((await connection.execute(statement, {"month": month, "kept": kept})).scalar_one())


async def oldest_usage_months(connection: WriteConnection) -> list[date]:
    """The months that have a partition, oldest first."""
    return [row[0] for row in await connection.execute(_PARTITIONS)]


async def prune_instances(connection: WriteConnection, kept: timedelta) -> int:
    return (await connection.execute(_INSTANCES, {"kept": kept})).rowcount


async def prune_epochs(connection: WriteConnection, kept: timedelta) -> int:
    return (await connection.execute(_EPOCHS, {"kept": kept})).rowcount


async def prune_journal_rows(
    connection: WriteConnection, kept: timedelta, kept_unmatched: timedelta, limit: int
) -> int:
    values = {"kept": kept, "kept_unmatched": kept_unmatched, "limit": limit}
    return (await connection.execute(_JOURNAL_ROWS, values)).rowcount


async def prune_minutes(connection: WriteConnection, kept: timedelta, limit: int) -> int:
    return (await connection.execute(_MINUTES, {"kept": kept, "limit": limit})).rowcount


async def prune_refusals(connection: WriteConnection, kept: timedelta, limit: int) -> int:
    return (await connection.execute(_REFUSALS, {"kept": kept, "limit": limit})).rowcount


async def prune_buckets(connection: WriteConnection, table: str, kept: timedelta, limit: int) -> int:
    """Of one of `BUCKET_TABLES`."""
    return (await connection.execute(_BUCKETS[table], {"kept": kept, "limit": limit})).rowcount


async def prune_sessions(connection: WriteConnection, kept: timedelta, limit: int) -> int:
    """Those that would have run out this long ago, whatever ended them."""
    return (await connection.execute(_SESSIONS, {"kept": kept, "limit": limit})).rowcount


async def prune_logins(connection: WriteConnection, limit: int) -> int:
    """Counts of attempts that are forgotten anyway."""
    return (await connection.execute(_LOGINS, {"limit": limit})).rowcount


async def prune_samples(connection: WriteConnection, kept: timedelta, limit: int) -> int:
    return (await connection.execute(_SAMPLES, {"kept": kept, "limit": limit})).rowcount


async def prune_deliveries(connection: WriteConnection, kept: timedelta, limit: int) -> int:
    """Those that are over, delivered or given up."""
    return (await connection.execute(_DELIVERIES, {"kept": kept, "limit": limit})).rowcount


async def prune_firings(connection: WriteConnection, kept: timedelta, limit: int) -> int:
    return (await connection.execute(_FIRINGS, {"kept": kept, "limit": limit})).rowcount


async def prune_budget_refusals(connection: WriteConnection, kept: timedelta, limit: int) -> int:
    return (await connection.execute(_BUDGET_REFUSALS, {"kept": kept, "limit": limit})).rowcount
