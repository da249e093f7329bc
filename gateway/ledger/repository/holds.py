"""Holds: written by reserve, found again by whoever settles a request whose gateway is gone."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import Row, text

from gateway.db import Lane, Prepared, WriteConnection, rows_of
from gateway.ids import KeyId, PoolId, RequestId, RouteId, TenantId
from gateway.ledger import models
from gateway.ledger.decide import BudgetRow
from gateway.ledger.repository.budgets import BudgetLimit
from gateway.ledger.repository.rows import asked_columns, insert_recordset
from gateway.ledger.types import BudgetKey, Hold, Prices, Reservation, Take

__all__ = [
    "FIRST_HOLD",
    "Taken",
    "holds_of",
    "insert_holds",
    "orphaned_holds",
    "provisional_holds",
    "restore_holds",
    "take_all",
    "take_if_room",
    "takes_from_json",
]

HoldPlace = tuple[datetime, str]
"""When a hold was made, and its request: where it stands among the others."""
FIRST_HOLD: HoldPlace = (datetime(1970, 1, 1, tzinfo=UTC), "")

LOST_INSTANCE = "run_lost"
"""No run has this id: its holds are orphans from the beginning."""

_INSERT = text(
    f"""
    WITH held AS (
        UPDATE budget_period row SET held_nanousd = row.held_nanousd + change.held
        FROM unnest(CAST(:budget_ids AS text[]), CAST(:period_keys AS text[]), CAST(:held AS bigint[]))
            AS change (budget_id, period_key, held)
        WHERE row.budget_id = change.budget_id AND row.period_key = change.period_key
    )
    {insert_recordset(models.Hold, "holds")}
    """
)
_RESTORE = text(
    f"""
    {insert_recordset(models.Hold, "holds")} r
    WHERE NOT EXISTS (SELECT FROM settled_request s WHERE s.request_id = r.request_id)
    ON CONFLICT (request_id) DO NOTHING
    """
)
# Everything or nothing, in one statement that holds the budget rows for as little as can be: what looks as if it fits is
# written first, the rows are taken last, in key order, and compared as they are by then. If one of them has no room any
# more, dividing by zero undoes it all; who asks then decides with the rows locked.
_TAKE_IF_ROOM = Prepared(
    f"""
    WITH written AS (
        {insert_recordset(models.Hold, "holds")}
        WHERE (SELECT revision FROM config_revision WHERE topic = 'budget') = CAST(:revision AS bigint)
            AND (SELECT NOT EXISTS (
                SELECT FROM unnest(CAST(:budget_ids AS text[]), CAST(:period_keys AS text[]), CAST(:held AS bigint[]),
                    CAST(:limits AS bigint[])) AS wanted (budget_id, period_key, held, limit_nanousd)
                WHERE (
                    SELECT coalesce(row.held_nanousd + row.spent_nanousd + wanted.held <= wanted.limit_nanousd, true)
                    FROM budget_period row
                    WHERE row.budget_id = wanted.budget_id AND row.period_key = wanted.period_key
                ) IS NOT TRUE
            ))
        RETURNING 1
    ), taken AS (
        INSERT INTO budget_period (budget_id, period_key, held_nanousd)
        SELECT * FROM unnest(CAST(:budget_ids AS text[]), CAST(:period_keys AS text[]), CAST(:held AS bigint[]))
            AS wanted (budget_id, period_key, held)
        WHERE (SELECT count(*) FROM written) > 0
        ORDER BY budget_id COLLATE "C", period_key COLLATE "C"
        ON CONFLICT (budget_id, period_key) DO UPDATE
            SET held_nanousd = budget_period.held_nanousd + EXCLUDED.held_nanousd
            WHERE coalesce(budget_period.held_nanousd + budget_period.spent_nanousd + EXCLUDED.held_nanousd
                <= (CAST(:limits AS bigint[]))[array_position(CAST(:budget_ids AS text[]), EXCLUDED.budget_id)], true)
        RETURNING 1
    ), done AS (
        SELECT (SELECT count(*) FROM written) > 0 AS is_taken, (SELECT count(*) FROM taken) AS rows
    )
    SELECT is_taken, 1 / CAST(NOT is_taken OR rows = cardinality(CAST(:budget_ids AS text[])) AS integer) FROM done
    """
)
# Everything or nothing, in one statement: the rows are locked in key order, the whole batch is compared with what they
# have room for, and only then taken. The revision is that of the limits given: other limits decide nothing.
_TAKE_ALL = Prepared(
    f"""
    WITH feed AS (
        SELECT revision = CAST(:revision AS bigint) AS is_current FROM config_revision WHERE topic = 'budget'
    ), wanted AS (
        SELECT * FROM unnest(CAST(:budget_ids AS text[]), CAST(:period_keys AS text[]), CAST(:held AS bigint[]),
            CAST(:limits AS bigint[])) AS w (budget_id, period_key, held, limit_nanousd)
    ), locked AS (
        SELECT row.budget_id, row.period_key, row.held_nanousd, row.spent_nanousd, wanted.held, wanted.limit_nanousd
        FROM budget_period row JOIN wanted USING (budget_id, period_key)
        WHERE (SELECT is_current FROM feed)
        ORDER BY row.budget_id COLLATE "C", row.period_key COLLATE "C"
        FOR UPDATE OF row
    ), verdict AS (
        SELECT (SELECT is_current FROM feed) AND count(*) = cardinality(CAST(:budget_ids AS text[]))
            AND bool_and(limit_nanousd IS NULL OR held_nanousd + spent_nanousd + held <= limit_nanousd)
                IS NOT FALSE AS fits
        FROM locked
    ), taken AS (
        UPDATE budget_period row SET held_nanousd = row.held_nanousd + locked.held
        FROM locked, verdict
        WHERE verdict.fits AND row.budget_id = locked.budget_id AND row.period_key = locked.period_key
    ), written AS (
        {insert_recordset(models.Hold, "holds")} WHERE (SELECT fits FROM verdict)
    )
    SELECT verdict.fits, locked.budget_id, locked.period_key, locked.held_nanousd, locked.spent_nanousd
    FROM verdict LEFT JOIN locked ON true
    """
)
_COLUMNS = """
    h.request_id, h.tenant_id, h.key_id, h.served_model, h.route_id, h.pool_id, h.endpoint, h.is_stream,
    h.request_class, h.user_ref, h.client_retry_count, h.max_prompt_tokens, h.max_output_tokens,
    h.estimated_prompt_tokens, h.amount_nanousd, h.takes, h.reserved_at, h.expires_at,
    h.price_input_id, h.price_cached_input_id, h.price_output_id,
    pi.nanousd_per_token AS price_input, pc.nanousd_per_token AS price_cached, po.nanousd_per_token AS price_output
    FROM hold h
    JOIN price pi ON pi.id = h.price_input_id
    JOIN price pc ON pc.id = h.price_cached_input_id
    JOIN price po ON po.id = h.price_output_id
"""
_HOLDS_OF = text(f"SELECT {_COLUMNS} WHERE h.request_id = ANY(CAST(:request_ids AS text[]))")
_ORPHANED = text(
    f"""
    SELECT {_COLUMNS}
    LEFT JOIN gateway_instance g ON g.instance_id = h.instance_id
    WHERE NOT h.is_lease AND (h.reserved_at, h.request_id) > (CAST(:after_at AS timestamptz), CAST(:after_id AS text))
        AND (g.instance_id IS NULL OR g.stopped_at IS NOT NULL OR h.expires_at < now()
            OR g.heartbeat_at < now() - make_interval(secs => :silent_s))
    ORDER BY h.reserved_at, h.request_id LIMIT :limit
    """
)

_PROVISIONAL = text(
    """
    SELECT e.request_id, e.tenant_id, e.key_id, e.served_model, e.route_id, e.pool_id, e.endpoint, e.is_stream,
        e.request_class, e.user_ref, e.client_retry_count, 0 AS max_prompt_tokens, 0 AS max_output_tokens,
        0 AS estimated_prompt_tokens, e.amount_nanousd, '[]'::jsonb AS takes, e.occurred_at AS reserved_at,
        e.occurred_at AS expires_at, e.price_input_id, e.price_cached_input_id, e.price_output_id,
        pi.nanousd_per_token AS price_input, pc.nanousd_per_token AS price_cached,
        po.nanousd_per_token AS price_output
    FROM settled_request s
    JOIN usage_event e ON e.occurred_at = s.occurred_at AND e.event_id = s.event_id
    JOIN price pi ON pi.id = e.price_input_id
    JOIN price pc ON pc.id = e.price_cached_input_id
    JOIN price po ON po.id = e.price_output_id
    WHERE s.is_provisional AND s.request_id = ANY(CAST(:request_ids AS text[]))
    """
)


@dataclass(frozen=True, slots=True)
class Taken:
    """`rows` as they were under their lock, before anything was taken. One is missing if it does not exist yet, all are
    if the limits are of another revision."""

    is_taken: bool
    rows: Mapping[BudgetKey, BudgetRow]


async def insert_holds(
    connection: WriteConnection, instance_id: str, holds: Sequence[Hold], held: Mapping[BudgetKey, int]
) -> None:
    """The holds and what they take from their budget rows, which are locked: one statement."""
    await connection.execute(
        _INSERT,
        {
            "budget_ids": [key.budget_id for key in held],
            "period_keys": [key.period_key for key in held],
            "held": list(held.values()),
            "holds": msgspec.json.encode([_row(instance_id, hold) for hold in holds]).decode(),
        },
    )


async def restore_holds(connection: WriteConnection, holds: Sequence[Hold]) -> None:
    """Holds that were never recorded, of a run that is dead: nobody but the reconciler will settle them."""
    document = msgspec.json.encode([_row(LOST_INSTANCE, hold) for hold in holds]).decode()
    await connection.execute(_RESTORE, {"holds": document})


async def take_if_room(
    connection: WriteConnection | Lane,
    instance_id: str,
    holds: Sequence[Hold],
    held: Mapping[BudgetKey, int],
    limits: Mapping[BudgetKey, BudgetLimit],
    revision: int,
) -> bool:
    """All of the holds, or none and no word of why: `take_all` says that. `limits` has one row of a budget. An error
    of the database where a row that had room has none when its turn comes."""
    assert holds
    values = _taking(instance_id, holds, held, limits, revision)
    return bool((await rows_of(connection, _TAKE_IF_ROOM, values))[0][0])


async def take_all(
    connection: WriteConnection | Lane,
    instance_id: str,
    holds: Sequence[Hold],
    held: Mapping[BudgetKey, int],
    limits: Mapping[BudgetKey, BudgetLimit],
    revision: int,
) -> Taken:
    """All of the holds, or none if one row has no room for its part of `held`."""
    values = _taking(instance_id, holds, held, limits, revision)
    found = await rows_of(connection, _TAKE_ALL, values)
    counted = {BudgetKey(row[1], row[2]): (row[3], row[4]) for row in found if row[1] is not None}
    return Taken(found[0][0], {key: limits[key].row(key, counts) for key, counts in counted.items()})


async def holds_of(connection: WriteConnection, request_ids: Collection[RequestId]) -> dict[RequestId, Hold]:
    rows = await connection.execute(_HOLDS_OF, {"request_ids": list(request_ids)})
    return {RequestId(row.request_id): _hold(row) for row in rows}


async def provisional_holds(
    connection: WriteConnection, request_ids: Collection[RequestId]
) -> dict[RequestId, Hold]:
    """Requests that were settled without evidence, as holds to correct them by: their rows are gone."""
    rows = await connection.execute(_PROVISIONAL, {"request_ids": list(request_ids)})
    return {RequestId(row.request_id): _hold(row, is_recorded=False) for row in rows}


async def orphaned_holds(
    connection: WriteConnection, silent_s: float, limit: int, after: HoldPlace = FIRST_HOLD
) -> list[Hold]:
    """Holds whose gateway run has ended, has been silent for `silent_s` by the database's clock, or that expired.
    Oldest first, behind the place `after`: those that must wait stand before nobody."""
    bounds = {"after_at": after[0], "after_id": after[1]}
    rows = await connection.execute(_ORPHANED, {"silent_s": silent_s, "limit": limit, **bounds})
    return [_hold(row) for row in rows]


def takes_from_json(document: object) -> tuple[Take, ...]:
    return msgspec.convert(document, type=tuple[Take, ...])


def _taking(
    instance_id: str,
    holds: Sequence[Hold],
    held: Mapping[BudgetKey, int],
    limits: Mapping[BudgetKey, BudgetLimit],
    revision: int,
) -> dict[str, Any]:
    keys = sorted(held)
    return {
        "revision": revision,
        "budget_ids": [key.budget_id for key in keys],
        "period_keys": [key.period_key for key in keys],
        "held": [held[key] for key in keys],
        "limits": [limits[key].limit_nanousd if limits[key].is_hard else None for key in keys],
        "holds": msgspec.json.encode([_row(instance_id, hold) for hold in holds]).decode(),
    }


def _row(instance_id: str, hold: Hold) -> dict[str, Any]:
    asked = hold.reservation
    return {
        **asked_columns(asked),
        "instance_id": instance_id,
        "price_input_id": asked.prices.input_id,
        "price_cached_input_id": asked.prices.cached_input_id,
        "price_output_id": asked.prices.output_id,
        "max_prompt_tokens": asked.max_prompt_tokens,
        "max_output_tokens": asked.max_output_tokens,
        "estimated_prompt_tokens": asked.fallback_prompt_tokens,
        "amount_nanousd": hold.amount_nanousd,
        "takes": hold.takes,
        "reserved_at": hold.reserved_at,
        "expires_at": hold.expires_at,
        "is_lease": hold.is_lease,
    }


def _hold(row: Row[Any], is_recorded: bool = True) -> Hold:
    prices = Prices(
        input_id=row.price_input_id,
        cached_input_id=row.price_cached_input_id,
        output_id=row.price_output_id,
        input_nanousd=row.price_input,
        cached_input_nanousd=row.price_cached,
        output_nanousd=row.price_output,
    )
    asked = Reservation(
        request_id=RequestId(row.request_id),
        tenant_id=TenantId(row.tenant_id),
        key_id=KeyId(row.key_id),
        served_model=row.served_model,
        route_id=RouteId(row.route_id),
        pool_id=PoolId(row.pool_id),
        endpoint=row.endpoint,
        prices=prices,
        max_prompt_tokens=row.max_prompt_tokens,
        max_output_tokens=row.max_output_tokens,
        is_stream=row.is_stream,
        request_class=row.request_class,
        user_ref=row.user_ref,
        client_retry_count=row.client_retry_count,
        estimated_prompt_tokens=row.estimated_prompt_tokens,
    )
    takes = takes_from_json(row.takes)
    return Hold(asked, row.amount_nanousd, takes, row.reserved_at, row.expires_at, is_recorded=is_recorded)
