"""Settling: the once-only guard, the event, its attempts and the outbox row, for a whole batch.

The guard is the insert into `settled_request`; whoever inserts the row may charge, nobody else.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import text

from gateway.db import Lane, Prepared, WriteConnection, rows_of
from gateway.ids import RequestId
from gateway.ledger.models import Attempt, UsageEvent
from gateway.ledger.repository.rows import asked_columns, insert_recordset
from gateway.ledger.types import Charge, Settlement, Take

__all__ = [
    "EventRow",
    "SettledFact",
    "attempt_rows",
    "ensure_partition",
    "event_row",
    "known_requests",
    "lock_provisional",
    "mark_corrected",
    "month_of",
    "settle_all",
    "write_events",
]

_EVENT_COLUMNS = [column.name for column in UsageEvent.__table__.columns if column.name != "recorded_at"]
_ATTEMPT_COLUMNS = [column.name for column in Attempt.__table__.columns if column.name != "recorded_at"]

# The whole batch in one statement. Who inserts a row into settled_request may charge: everything else joins `fresh`.
# The facts come first, the budget rows last and in key order, because everybody waits for those: reading `facts`
# makes sure of it. A hold gives back what it took, wherever its request was charged; a request whose hold is gone is
# charged to the rows that are given with it.
_SETTLE = Prepared(
    f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM json_populate_recordset(CAST(NULL AS usage_event), CAST(:events AS json))
    ), fresh AS (
        INSERT INTO settled_request (request_id, tenant_id, event_id, occurred_at, is_provisional)
        SELECT request_id, tenant_id, event_id, occurred_at, request_id = ANY(CAST(:provisional AS text[]))
        FROM given ORDER BY request_id COLLATE "C"
        ON CONFLICT DO NOTHING RETURNING request_id
    ), gone AS (
        DELETE FROM hold h
        USING (SELECT request_id FROM fresh UNION SELECT unnest(CAST(:discards AS text[]))) ended
        WHERE h.request_id = ended.request_id RETURNING h.request_id, h.takes
    ), event AS (
        INSERT INTO usage_event ({", ".join(_EVENT_COLUMNS)})
        SELECT {", ".join(_EVENT_COLUMNS)} FROM given JOIN fresh USING (request_id) RETURNING 1
    ), tried AS (
        INSERT INTO attempt ({", ".join(_ATTEMPT_COLUMNS)})
        SELECT {", ".join(_ATTEMPT_COLUMNS)}
        FROM json_populate_recordset(CAST(NULL AS attempt), CAST(:attempts AS json)) JOIN fresh USING (request_id)
        RETURNING 1
    ), told AS (
        INSERT INTO outbox (topic, tenant_id, payload)
        SELECT 'usage', tenant_id, jsonb_build_object('occurred_at', occurred_at, 'event_id', event_id)
        FROM given JOIN fresh USING (request_id) RETURNING 1
    ), facts AS (
        SELECT (SELECT count(*) FROM event) + (SELECT count(*) FROM tried) + (SELECT count(*) FROM told) AS number
    ), change AS (
        SELECT take.budget_id, take.period_key, take.amount_nanousd AS held, 0 AS spent
        FROM gone, jsonb_to_recordset(gone.takes) AS take (budget_id text, period_key text, amount_nanousd bigint)
        UNION ALL
        SELECT take.budget_id, take.period_key, 0, given.amount_nanousd
        FROM given JOIN fresh USING (request_id) LEFT JOIN gone USING (request_id), jsonb_to_recordset(
            coalesce(nullif(gone.takes, '[]'), CAST(:takes AS jsonb) -> request_id)) AS take (budget_id text, period_key text)
    ), counted AS (
        INSERT INTO budget_period (budget_id, period_key, held_nanousd, spent_nanousd)
        SELECT budget_id, period_key, sum(held), sum(spent) FROM change, facts WHERE facts.number >= 0
        GROUP BY budget_id, period_key ORDER BY budget_id COLLATE "C", period_key COLLATE "C"
        ON CONFLICT (budget_id, period_key) DO UPDATE SET
            held_nanousd = budget_period.held_nanousd - EXCLUDED.held_nanousd,
            spent_nanousd = budget_period.spent_nanousd + EXCLUDED.spent_nanousd
    )
    SELECT request_id FROM fresh
    """
)
_WRITE = text(
    f"""
    WITH event AS ({insert_recordset(UsageEvent, "events", skip=("recorded_at",))}),
    attempts AS ({insert_recordset(Attempt, "attempts", skip=("recorded_at",))})
    INSERT INTO outbox (topic, tenant_id, payload)
    SELECT 'usage', e.tenant_id, jsonb_build_object('occurred_at', e.occurred_at, 'event_id', e.event_id)
    FROM json_populate_recordset(CAST(NULL AS usage_event), CAST(:events AS json)) e
    """
)
_PROVISIONAL = text(
    """
    SELECT s.event_id, s.occurred_at, e.prompt_uncached_tokens, e.prompt_cached_tokens, e.completion_tokens,
        e.reasoning_tokens, e.input_nanousd, e.cached_input_nanousd, e.output_nanousd
    FROM settled_request s
    JOIN usage_event e ON e.occurred_at = s.occurred_at AND e.event_id = s.event_id
    WHERE s.request_id = :request_id AND s.is_provisional
    FOR UPDATE OF s
    """
)
_KNOWN = text(
    """
    SELECT request_id FROM settled_request WHERE request_id = ANY(CAST(:request_ids AS text[]))
    UNION SELECT request_id FROM hold WHERE request_id = ANY(CAST(:request_ids AS text[]))
    """
)
_CORRECTED = text("UPDATE settled_request SET is_provisional = false WHERE request_id = :request_id")

EventRow = dict[str, Any]
"""One row of usage_event, by column."""


@dataclass(frozen=True, slots=True)
class SettledFact:
    """What a provisional settlement charged."""

    event_id: UUID
    charge: Charge
    reasoning_tokens: int


async def settle_all(
    connection: WriteConnection | Lane,
    events: Sequence[EventRow],
    attempts: Sequence[Mapping[str, Any]],
    takes: Mapping[RequestId, Sequence[Take]],
    *,
    provisional: Sequence[RequestId] = (),
    discards: Sequence[RequestId] = (),
) -> set[RequestId]:
    """Pass the guard, write the facts, remove the holds and count in the budgets; the requests that nobody had settled.
    `takes`: the rows to charge if the hold is gone. `discards`: holds that nobody will use."""
    rows = await rows_of(
        connection,
        _SETTLE,
        {
            "events": msgspec.json.encode(events).decode(),
            "attempts": msgspec.json.encode(attempts).decode(),
            "takes": msgspec.json.encode(takes).decode(),
            "provisional": list(provisional),
            "discards": list(discards),
        },
    )
    return {RequestId(row[0]) for row in rows}


async def write_events(
    connection: WriteConnection, events: Sequence[EventRow], attempts: Sequence[Mapping[str, Any]]
) -> None:
    await connection.execute(
        _WRITE,
        {
            "events": msgspec.json.encode(events).decode(),
            "attempts": msgspec.json.encode(attempts).decode(),
        },
    )


async def lock_provisional(connection: WriteConnection, request_id: RequestId) -> SettledFact | None:
    """What was charged provisionally, or None if the request is settled for good."""
    row = (await connection.execute(_PROVISIONAL, {"request_id": request_id})).one_or_none()
    if row is None:
        return None
    charge = Charge(
        prompt_uncached_tokens=row.prompt_uncached_tokens,
        prompt_cached_tokens=row.prompt_cached_tokens,
        completion_tokens=row.completion_tokens,
        input_nanousd=row.input_nanousd,
        cached_input_nanousd=row.cached_input_nanousd,
        output_nanousd=row.output_nanousd,
    )
    return SettledFact(row.event_id, charge, row.reasoning_tokens)


async def known_requests(connection: WriteConnection, request_ids: Collection[RequestId]) -> set[RequestId]:
    """Those that have a hold or were settled."""
    rows = await connection.execute(_KNOWN, {"request_ids": sorted(request_ids)})
    return {RequestId(row[0]) for row in rows}


async def mark_corrected(connection: WriteConnection, request_id: RequestId) -> None:
    await connection.execute(_CORRECTED, {"request_id": request_id})


async def ensure_partition(connection: WriteConnection, month: date, months: int = 1) -> int:
    """The partitions from `month` on exist when this returns; how many of them were made."""
    result = await connection.execute(
        text("SELECT ensure_usage_partitions(:month, :months)"), {"month": month, "months": months}
    )
    return int(result.scalar_one())


def event_row(
    settlement: Settlement, event_id: UUID, charge: Charge, reasoning_tokens: int, corrects: UUID | None
) -> EventRow:
    """The columns of `usage_event` for a settlement, or for the signed difference that corrects one."""
    asked, timings = settlement.hold.reservation, settlement.timings
    prices = asked.prices
    amount_nanousd = charge.amount_nanousd
    return {
        **asked_columns(asked),
        "occurred_at": settlement.occurred_at,
        "event_id": event_id,
        "status": settlement.status,
        "error_code": settlement.error_code,
        "over_hold_nanousd": 0 if corrects else max(0, amount_nanousd - settlement.hold.amount_nanousd),
        "corrects": corrects,
        "kind": "request",
        "adjustment_nanousd": 0,
        "prompt_uncached_tokens": charge.prompt_uncached_tokens,
        "prompt_cached_tokens": charge.prompt_cached_tokens,
        "completion_tokens": charge.completion_tokens,
        "reasoning_tokens": reasoning_tokens,
        "input_nanousd": charge.input_nanousd,
        "cached_input_nanousd": charge.cached_input_nanousd,
        "output_nanousd": charge.output_nanousd,
        "amount_nanousd": amount_nanousd,
        "price_input_id": prices.input_id,
        "price_cached_input_id": prices.cached_input_id,
        "price_output_id": prices.output_id,
        "queue_ms": timings.queue_ms,
        "ttft_ms": timings.ttft_ms,
        "e2e_ms": timings.e2e_ms,
        "tpot_us": timings.tpot_us,
    }


def attempt_rows(settlement: Settlement) -> list[dict[str, Any]]:
    """The columns of `attempt`; nothing for assumptions."""
    if settlement.is_provisional:
        return []
    asked = settlement.hold.reservation
    return [
        {
            "request_id": asked.request_id,
            "tenant_id": asked.tenant_id,
            "attempt": record.attempt,
            "replica_id": record.replica_id,
            "engine_epoch": record.engine_epoch,
            "prompt_tokens": record.prompt_tokens,
            "cached_tokens": record.cached_tokens,
            "completion_tokens": record.completion_tokens,
            "overrun_tokens": record.overrun_tokens,
            "billed_prompt_tokens": record.billed_prompt_tokens,
            "billed_completion_tokens": record.billed_completion_tokens,
            "unbilled_reason": record.unbilled_reason,
            "resumed_from": record.resumed_from,
            "finish_reason": record.finish_reason,
        }
        for record in settlement.attempts
    ]


def month_of(at: datetime) -> date:
    return at.astimezone(UTC).date().replace(day=1)
