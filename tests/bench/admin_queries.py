"""Every question of the admin API that reads the ledger, with its filters: what the benchmark asks and the plans' test
explains. A question draws its tenant, key, names and times anew each time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.harness import Gateway

__all__ = ["QUERIES", "Facts", "Question"]

MINUTE, HOUR, DAY = 60, 3_600, 86_400
BIG = "proj_1"

Question = Callable[["Facts", random.Random], str]


@dataclass(frozen=True)
class Facts:
    """What there is in a filled ledger (scale_fill.py)."""

    first: int
    last: int
    samples: list[dict[str, Any]]

    @classmethod
    async def of(cls, gateway: Gateway) -> Facts:
        [range_] = await gateway.sql(
            "SELECT extract(epoch FROM min(bucket))::bigint AS first, extract(epoch FROM max(bucket))::bigint AS last"
            " FROM rollup_day"
        )
        samples = await gateway.sql(
            "SELECT request_id, tenant_id, key_id, user_ref, served_model, pool_id FROM usage_event"
            " WHERE user_ref IS NOT NULL AND occurred_at >= to_timestamp($1) LIMIT 500",
            range_["last"] - 20 * DAY,
        )
        return cls(range_["first"], range_["last"] + DAY, samples)

    def small(self, draw: random.Random) -> str:
        return f"proj_{draw.randrange(2, 201)}"

    def one(self, draw: random.Random, name: str) -> str:
        return str(draw.choice(self.samples)[name])

    def day(self, draw: random.Random, days: int = 1) -> int:
        """The start of a span of that many days within the ledger."""
        return self.first + draw.randrange((self.last - self.first) // DAY - days + 1) * DAY


def _range(days: float, query: str) -> Question:
    """A span that ends at the ledger's end, or a random one of the same length."""

    def ask(facts: Facts, draw: random.Random) -> str:
        span = int(days * DAY)
        start = facts.last - span if draw.random() < 0.5 else facts.day(draw, -(-span // DAY))
        return query.format(
            start=start,
            range=f"start_time={start}&end_time={start + span}",
            before=max(0, start - span),
            small=facts.small(draw),
            key=facts.one(draw, "key_id"),
            user=facts.one(draw, "user_ref"),
            model=facts.one(draw, "served_model"),
            pool=facts.one(draw, "pool_id"),
            request=facts.one(draw, "request_id"),
            big=BIG,
        )

    return ask


_LATENCIES = "&latencies=ttft&latencies=tpot"
_LONG = "group_by=project_id&group_by=model&group_by=api_key_id&group_by=batch"
QUERIES: dict[str, Question] = {
    # usage, by every width at its largest page
    "usage 31 days": _range(31, "/usage/completions?{range}&limit=31"),
    "usage 31 days by project": _range(31, "/usage/completions?{range}&limit=31&group_by=project_id"),
    "usage 31 days by model": _range(31, "/usage/completions?{range}&limit=31&group_by=model"),
    "usage 31 days by everything": _range(31, "/usage/completions?{range}&limit=31&" + _LONG),
    "usage 31 days, the big project, by key": _range(31, "/usage/completions?{range}&limit=31&project_ids={big}&group_by=api_key_id"),
    "usage 31 days, a small project": _range(31, "/usage/completions?{range}&limit=31&project_ids={small}"),
    "usage 31 days, a key": _range(31, "/usage/completions?{range}&limit=31&api_key_ids={key}"),
    "usage 31 days, a model, batch only": _range(31, "/usage/completions?{range}&limit=31&models={model}&batch=true"),
    "usage 31 days cut at both ends": _range(30.4, "/usage/completions?{range}&limit=31&group_by=model"),
    "usage 168 hours": _range(7, "/usage/completions?{range}&bucket_width=1h&limit=168"),
    "usage 168 hours by project": _range(7, "/usage/completions?{range}&bucket_width=1h&limit=168&group_by=project_id"),
    "usage 168 hours, the big project": _range(7, "/usage/completions?{range}&bucket_width=1h&limit=168&project_ids={big}"),
    "usage 1440 minutes": _range(1, "/usage/completions?{range}&bucket_width=1m&limit=1440"),
    "usage 1440 minutes by model": _range(1, "/usage/completions?{range}&bucket_width=1m&limit=1440&group_by=model"),
    "usage 1440 minutes, a small project": _range(1, "/usage/completions?{range}&bucket_width=1m&limit=1440&project_ids={small}"),
    "embeddings 31 days by model": _range(31, "/usage/embeddings?{range}&limit=31&group_by=model"),
    # end users: from the events
    "usage 31 days, a user": _range(31, "/usage/completions?{range}&limit=31&user_ids={user}"),
    "usage 24 hours by user": _range(1, "/usage/completions?{range}&bucket_width=1h&group_by=user_id"),
    "usage by user, a small project": _range(31, "/usage/completions?{range}&limit=31&group_by=user_id&project_ids={small}"),
    "usage 24 hours by user, the big project": _range(1, "/usage/completions?{range}&bucket_width=1h&group_by=user_id&project_ids={big}"),
    # costs
    "costs 31 days": _range(31, "/costs?{range}&limit=31"),
    "costs 31 days by project and line": _range(31, "/costs?{range}&limit=31&group_by=project_id&group_by=line_item"),
    "costs of everything there is": _range(120, "/costs?{range}&limit=180"),
    "costs of everything by line": _range(120, "/costs?{range}&limit=180&group_by=line_item"),
    "costs of everything, the big project, by key": _range(120, "/costs?{range}&limit=180&project_ids={big}&group_by=api_key_id"),
    "costs of everything, a key": _range(120, "/costs?{range}&limit=180&api_key_ids={key}"),
    "costs by user, a small project": _range(31, "/costs?{range}&limit=31&group_by=user_id&project_ids={small}"),
    # breakdown and the usual
    "breakdown 31 days by project, compared": _range(31, "/usage/breakdown?{range}&group_by=project_id&compare_start_time={before}"),
    "breakdown 31 days by key, compared": _range(31, "/usage/breakdown?{range}&group_by=api_key_id&compare_start_time={before}&limit=100"),
    "breakdown 31 days, the big project, by model": _range(31, "/usage/breakdown?{range}&group_by=model&project_ids={big}&compare_start_time={before}"),
    "breakdown 7 days by status, a pool": _range(7, "/usage/breakdown?{range}&group_by=status&pool_ids={pool}&order_by=requests"),
    "breakdown 90 days by model": _range(90, "/usage/breakdown?{range}&group_by=model&order_by=output_tokens"),
    "the usual, everything, 4 weeks": _range(1, "/usage/usual"),
    "the usual, everything, 8 weeks": _range(1, "/usage/usual?weeks=8"),
    "the usual, the big project": _range(1, "/usage/usual?project_ids={big}"),
    # requests
    "requests": _range(1, "/requests?limit=100"),
    "requests of a day": _range(1, "/requests?limit=100&{range}"),
    "requests, the big project": _range(1, "/requests?limit=100&project_id={big}"),
    "requests, a small project": _range(1, "/requests?limit=100&project_id={small}"),
    "requests, a small project, a day": _range(1, "/requests?limit=100&project_id={small}&{range}"),
    "requests, a key": _range(1, "/requests?limit=100&api_key_id={key}"),
    "requests, a key, a model": _range(1, "/requests?limit=100&api_key_id={key}&model={model}"),
    "requests, a user": _range(1, "/requests?limit=100&user_id={user}"),
    "requests, a model": _range(1, "/requests?limit=100&model={model}"),
    "requests, no such model": _range(1, "/requests?limit=100&model=none"),
    "requests, a pool, not streamed, batch": _range(1, "/requests?limit=100&pool_id={pool}&stream=false&class=batch"),
    "requests that failed": _range(1, "/requests?limit=100&status=error"),
    "requests that failed, the big project": _range(1, "/requests?limit=100&status=error&status=partial&project_id={big}"),
    "requests that failed, a small project": _range(1, "/requests?limit=100&status=unknown&project_id={small}"),
    "requests that failed, a key, a day": _range(1, "/requests?limit=100&status=error&api_key_id={key}&{range}"),
    "requests, a small project, another's key": _range(1, "/requests?limit=100&project_id={small}&api_key_id=key_1_0"),
    "requests, a small project, rare pool and class": _range(1, "/requests?limit=100&project_id={small}&pool_id={pool}&class=batch"),
    "one request": _range(1, "/requests/{request}"),
    "usage events": _range(1, "/usage_events?limit=100"),
    "usage events, the big project, a model": _range(1, "/usage_events?limit=100&project_id={big}&model={model}"),
    "usage events of a request": _range(1, "/usage_events?request_id={request}"),
    # what stands beside them in the console
    "me": _range(1, "/me"),
    "overview": _range(1, "/overview"),
    "the board": _range(1, "/slo/board?limit=50"),
    "the board, 100 lines": _range(1, "/slo/board?limit=100"),
    "the board, the big project": _range(1, "/slo/board?limit=50&project_ids={big}"),
    "latencies of 4 hours by minute": _range(1 / 6, "/slo/series?{range}&bucket_width=1m&limit=240" + _LATENCIES),
    "latencies of a week by hour": _range(7, "/slo/series?{range}&bucket_width=1h&limit=168" + _LATENCIES),
    "latencies of a week by hour, the big project": _range(7, "/slo/series?{range}&bucket_width=1h&limit=168&project_ids={big}" + _LATENCIES),
    "latencies of a month by day, a small project": _range(30, "/slo/series?{range}&bucket_width=1d&limit=31&project_ids={small}" + _LATENCIES),
    "objectives": _range(1, "/objectives?limit=50"),
    "alert episodes": _range(1, "/alert_episodes?limit=50"),
    "alert silences": _range(1, "/alert_silences?state=open&limit=50"),
    "webhook endpoints": _range(1, "/webhook_endpoints?limit=50"),
    "search, a name": _range(1, "/search?q=tenant"),
    "search, a key": _range(1, "/search?q={key}"),
    "search, a request": _range(1, "/search?q={request}"),
    "one project": _range(1, "/projects/{big}"),
    "pools": _range(1, "/pools?limit=100"),
    "audit log": _range(1, "/audit_logs?limit=100"),
    "users": _range(1, "/users?limit=100"),
    "admin keys": _range(1, "/admin_api_keys?limit=100"),
    "sessions": _range(1, "/sessions?limit=100"),
    "projects": _range(1, "/projects?limit=100"),
    "keys of the big project": _range(1, "/projects/{big}/api_keys?limit=100"),
    "budgets": _range(1, "/budgets?limit=100"),
    "prices": _range(1, "/prices?limit=100"),
    "routes": _range(1, "/routes?limit=100"),
    "credits of the big project": _range(1, "/credits?limit=100&project_id={big}"),
    "adjustments": _range(1, "/adjustments?limit=100"),
    "exports": _range(1, "/exports?limit=100"),
    "alerts": _range(1, "/alerts?limit=100"),
}  # fmt: skip
