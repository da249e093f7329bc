"""What the sources of alerts read."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import text

from gateway.alerts.sources.others import EXPIRING, ExpiringKey, FailedExport, FailingEndpoint
from gateway.alerts.sources.pools import LOOK_BACK, ReplicaHealth, Sample
from gateway.db import WriteConnection
from gateway.slo.histogram import Histogram, add, from_json
from gateway.slo.types import ALL_TENANTS

__all__ = [
    "end_to_end",
    "expiring_keys",
    "failed_exports",
    "failing_endpoints",
    "pool_names",
    "replica_health",
    "samples",
    "serving_pools",
]

_SAMPLES = text(
    """
    SELECT s.pool_id, p.name AS pool, s.replica_id, s.at, s.waiting, s.running, s.kv_usage, s.preemptions
    FROM replica_sample s JOIN pool p ON p.id = s.pool_id JOIN replica r ON r.id = s.replica_id
    WHERE s.at > :since AND s.at <= :now AND p.deleted_at IS NULL AND r.state <> 'stopped' ORDER BY s.at, s.replica_id
    """
)
_SERVING = text(
    """
    SELECT DISTINCT p.id, p.name FROM pool p JOIN replica r ON r.pool_id = p.id
    WHERE r.state = 'ready' AND p.deleted_at IS NULL
    """
)
_NAMES = text("SELECT id, name FROM pool WHERE deleted_at IS NULL")
_HEALTH = text(
    """
    SELECT r.id AS replica_id, r.pool_id, p.name AS pool, r.node, r.state, r.restarts, r.last_error
    FROM replica r JOIN pool p ON p.id = r.pool_id
    WHERE r.state <> 'stopped' AND p.deleted_at IS NULL AND p.desired_state = 'running' ORDER BY r.id
    """
)
_END_TO_END = text(
    """
    SELECT pool_id, e2e FROM latency_minute
    WHERE bucket >= :since AND bucket <= :now AND tenant_id = :all AND request_class = 'interactive'
    """
)
_FAILED = text(
    """
    SELECT id, format, CAST(period_start AS text) AS period_start, CAST(period_end AS text) AS period_end, tenant_id, error
    FROM export_run f
    WHERE status = 'failed' AND finished_at > CAST(:now AS timestamptz) - interval '7 days' AND NOT EXISTS (
        SELECT FROM export_run s WHERE s.status = 'succeeded' AND s.format = f.format
            AND (s.period_start, s.period_end) = (f.period_start, f.period_end)
            AND s.tenant_id IS NOT DISTINCT FROM f.tenant_id AND s.finished_at > f.finished_at)
    """
)
# A key that was rotated expires on purpose.
_EXPIRING = text(
    """
    SELECT k.id, k.tenant_id, k.name, k.created_at, k.expires_at FROM api_key k JOIN tenant t ON t.id = k.tenant_id
    WHERE k.expires_at IS NOT NULL AND k.revoked_at IS NULL AND k.expires_at > :now AND k.expires_at <= :until
        AND t.status = 'active'
        AND NOT EXISTS (SELECT FROM api_key n WHERE n.tenant_id = k.tenant_id AND n.rotated_from = k.id)
    UNION ALL
    SELECT id, NULL, name, created_at, expires_at FROM admin_api_key
    WHERE revoked_at IS NULL AND expires_at > :now AND expires_at <= :until
    """
)


# After the fourth attempt a delivery has failed for more than half an hour.
_ENDPOINTS = text(
    """
    SELECT e.id, e.tenant_id, e.name, e.disabled_reason, max(d.attempts) AS attempts
    FROM webhook_endpoint e LEFT JOIN delivery d
        ON d.channel = 'webhook' AND d.target_key = e.id AND d.next_attempt_at IS NOT NULL AND d.attempts >= 4
    WHERE e.disabled_reason IN ('gone', 'failing') OR (e.disabled_at IS NULL AND d.id IS NOT NULL)
    GROUP BY e.id ORDER BY e.id
    """
)


async def samples(connection: WriteConnection, now: datetime) -> list[Sample]:
    """Of the last minutes, oldest first."""
    rows = (await connection.execute(_SAMPLES, {"since": now - LOOK_BACK, "now": now})).mappings()
    return [Sample(**row) for row in rows]


async def serving_pools(connection: WriteConnection) -> dict[str, str]:
    return {row.id: row.name for row in await connection.execute(_SERVING)}


async def pool_names(connection: WriteConnection) -> dict[str, str]:
    return {row.id: row.name for row in await connection.execute(_NAMES)}


async def replica_health(connection: WriteConnection) -> list[ReplicaHealth]:
    return [ReplicaHealth(**row) for row in (await connection.execute(_HEALTH)).mappings()]


async def end_to_end(connection: WriteConnection, now: datetime) -> dict[str, Histogram]:
    """Of the last minutes, by pool."""
    found: dict[str, Histogram] = {}
    values = {"since": now - LOOK_BACK, "now": now, "all": ALL_TENANTS}
    for row in await connection.execute(_END_TO_END, values):
        add(found.setdefault(row.pool_id, {}), from_json(row.e2e))
    return found


async def failed_exports(connection: WriteConnection, now: datetime) -> list[FailedExport]:
    return [FailedExport(**row) for row in (await connection.execute(_FAILED, {"now": now})).mappings()]


async def expiring_keys(connection: WriteConnection, now: datetime) -> list[ExpiringKey]:
    rows = (await connection.execute(_EXPIRING, {"now": now, "until": now + EXPIRING})).mappings()
    return [ExpiringKey(**row) for row in rows]


async def failing_endpoints(connection: WriteConnection) -> list[FailingEndpoint]:
    return [FailingEndpoint(**row) for row in (await connection.execute(_ENDPOINTS)).mappings()]
