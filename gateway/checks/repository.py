"""SQL of the checklist: read only, as the application's role."""

from __future__ import annotations

from sqlalchemy import text

from gateway.checks.types import DatabaseFacts, PoolTokens
from gateway.db import ReadSession

__all__ = ["read_facts"]

_LIVE_S = 60
_TOKENS_DAYS = 7

_ROLE = text("""
SELECT has_table_privilege(current_user, 'usage_event', 'UPDATE')
        OR has_table_privilege(current_user, 'usage_event', 'DELETE') AS may_rewrite,
    current_setting('max_connections')::int AS max_connections,
    (SELECT count(*) FROM gateway_instance
        WHERE stopped_at IS NULL AND heartbeat_at > now() - make_interval(secs => :live_s)) AS gateways,
    (SELECT count(*) FROM review_item WHERE resolved_at IS NULL) AS open_items
""")
_TOKENS = text("""
SELECT pool_id, count(*) AS requests,
    percentile_disc(0.99) WITHIN GROUP (ORDER BY prompt_uncached_tokens + prompt_cached_tokens) AS prompt,
    percentile_disc(0.99) WITHIN GROUP (ORDER BY completion_tokens) AS output
FROM usage_event
WHERE occurred_at > now() - make_interval(days => :days) AND kind = 'request' AND corrects IS NULL AND status = 'ok'
GROUP BY pool_id
""")


async def read_facts(session: ReadSession) -> DatabaseFacts:
    row = (await session.execute(_ROLE, {"live_s": _LIVE_S})).one()
    pools = (await session.execute(_TOKENS, {"days": _TOKENS_DAYS})).all()
    return DatabaseFacts(
        may_rewrite_events=row.may_rewrite,
        max_connections=row.max_connections,
        gateways=row.gateways,
        open_review_items=row.open_items,
        tokens={pool.pool_id: PoolTokens(pool.requests, pool.prompt, pool.output) for pool in pools},
    )
