"""Leases of batches, and what their holders write. Every write names the lease's epoch: whoever lost it changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import text

from gateway.batches.repository.batches import BATCH_COLUMNS, batch_of_row
from gateway.batches.types import ACTIVE_SQL, BatchState, Lease, LineError, Result
from gateway.db import Lane, Prepared, WriteConnection, rows_of

__all__ = [
    "answered_lines",
    "begin_finalizing",
    "begin_work",
    "claim",
    "end",
    "is_any_due",
    "page_of_results",
    "release",
    "renew",
    "save_results",
]

# Whose tenant has the fewest batches at work comes first, then who has waited longest.
_CLAIM = text(
    f"""
    WITH turn AS (
        SELECT b.tenant_id, b.id FROM batch b
        WHERE b.state IN {ACTIVE_SQL} AND b.run_after <= now()
            AND NOT b.id = ANY(CAST(:not_these AS text[]))
        ORDER BY (SELECT count(*) FROM batch o WHERE o.tenant_id = b.tenant_id AND o.lease_owner IS NOT NULL
            AND o.state IN {ACTIVE_SQL} AND o.run_after > now()),
            b.run_after
        LIMIT 1 FOR UPDATE OF b SKIP LOCKED
    )
    UPDATE batch b SET lease_epoch = b.lease_epoch + 1, lease_owner = :owner,
        takeovers = b.takeovers + CASE WHEN b.lease_owner IS NULL THEN 0 ELSE 1 END,
        run_after = now() + make_interval(secs => :lease_s)
    FROM turn WHERE b.tenant_id = turn.tenant_id AND b.id = turn.id
    RETURNING b.lease_epoch, b.takeovers, b.next_line, b.next_offset, {BATCH_COLUMNS}
    """
)
_ANY_DUE = Prepared(
    f"""
    SELECT EXISTS (SELECT FROM batch b WHERE b.state IN {ACTIVE_SQL} AND b.run_after <= now()
        AND NOT b.id = ANY(CAST(:not_these AS text[])))
    """
)
_MINE = "tenant_id = :tenant_id AND id = :id AND lease_epoch = :epoch"
_RENEW = text(
    f"UPDATE batch SET run_after = now() + make_interval(secs => :lease_s) WHERE {_MINE} RETURNING state"
)
_BEGIN = text(
    f"""
    UPDATE batch SET state = 'in_progress', in_progress_at = :now, total = :total, model = :model
    WHERE {_MINE} AND state = 'validating'
    """
)
_RELEASE = text(
    f"""
    UPDATE batch SET lease_owner = NULL, run_after = now() + make_interval(secs => :pause_s),
        next_line = coalesce(:next_line, next_line), next_offset = coalesce(:next_offset, next_offset)
    WHERE {_MINE}
    """
)
# The lock comes first; what was written by an attempt whose commit nobody saw is not counted again.
_SAVE = text(
    f"""
    WITH mine AS MATERIALIZED (
        SELECT tenant_id, id FROM batch WHERE {_MINE} FOR UPDATE
    ), given AS (
        SELECT * FROM json_to_recordset(CAST(:results AS json)) AS g (line bigint, is_error boolean, content text,
            input_tokens bigint, cached_tokens bigint, output_tokens bigint, reasoning_tokens bigint)
    ), written AS (
        INSERT INTO batch_result (tenant_id, batch_id, line, is_error, content)
        SELECT mine.tenant_id, mine.id, g.line, g.is_error, g.content FROM mine, given g
        ON CONFLICT DO NOTHING RETURNING line
    ), counted AS (
        SELECT count(*) FILTER (WHERE NOT g.is_error) AS completed, count(*) FILTER (WHERE g.is_error) AS failed,
            coalesce(sum(g.input_tokens), 0) AS input, coalesce(sum(g.cached_tokens), 0) AS cached,
            coalesce(sum(g.output_tokens), 0) AS output, coalesce(sum(g.reasoning_tokens), 0) AS reasoning
        FROM given g JOIN written USING (line)
    )
    UPDATE batch b SET completed = b.completed + c.completed, failed = b.failed + c.failed,
        input_tokens = b.input_tokens + c.input, cached_tokens = b.cached_tokens + c.cached,
        output_tokens = b.output_tokens + c.output, reasoning_tokens = b.reasoning_tokens + c.reasoning
    FROM mine, counted c WHERE b.tenant_id = mine.tenant_id AND b.id = mine.id
    """
)
_ANSWERED = text(
    "SELECT line FROM batch_result WHERE tenant_id = :tenant_id AND batch_id = :id AND line >= :from_line"
)
_PAGE = text(
    """
    SELECT line, content FROM batch_result
    WHERE tenant_id = :tenant_id AND batch_id = :id AND line > :after AND is_error = :is_error
    ORDER BY line LIMIT :limit
    """
)
_FINALIZING = text(
    f"UPDATE batch SET state = 'finalizing', finalizing_at = :now WHERE {_MINE} AND state = 'in_progress'"
)
_DROP_RESULTS = text("DELETE FROM batch_result WHERE tenant_id = :tenant_id AND batch_id = :id")


async def is_any_due(connection: WriteConnection | Lane, not_these: Sequence[str] = ()) -> bool:
    """Cheaper than to claim, where there mostly is nothing."""
    return bool((await rows_of(connection, _ANY_DUE, {"not_these": list(not_these)}))[0][0])


async def claim(
    connection: WriteConnection, owner: str, lease_s: float, not_these: Sequence[str] = ()
) -> Lease | None:
    values = {"owner": owner, "lease_s": lease_s, "not_these": list(not_these)}
    row = (await connection.execute(_CLAIM, values)).one_or_none()
    if row is None:
        return None
    return Lease(batch_of_row(row), row.lease_epoch, row.takeovers, row.next_line, row.next_offset)


async def renew(connection: WriteConnection, lease: Lease, lease_s: float) -> BatchState | None:
    """The batch's state; None if somebody else has it."""
    found = await connection.execute(_RENEW, {**_mine(lease), "lease_s": lease_s})
    state: BatchState | None = found.scalar_one_or_none()
    return state


async def begin_work(
    connection: WriteConnection, lease: Lease, total: int, model: str | None, now: datetime
) -> bool:
    """Its input is good. False if the batch was cancelled or lost meanwhile."""
    values = {**_mine(lease), "total": total, "model": model, "now": now}
    return (await connection.execute(_BEGIN, values)).rowcount > 0


async def begin_finalizing(connection: WriteConnection, lease: Lease, now: datetime) -> bool:
    """All lines have results. False if the batch was cancelled or lost meanwhile."""
    return (await connection.execute(_FINALIZING, {**_mine(lease), "now": now})).rowcount > 0


async def release(
    connection: WriteConnection, lease: Lease, place: tuple[int, int] | None, pause_s: float
) -> None:
    """Somebody else may take it up after `pause_s`, from the line and the byte `place`."""
    line, offset = place or (None, None)
    values = {**_mine(lease), "next_line": line, "next_offset": offset, "pause_s": pause_s}
    await connection.execute(_RELEASE, values)


async def save_results(connection: WriteConnection, lease: Lease, results: Sequence[Result]) -> bool:
    """They are there when this commits, once each. False if the lease is lost: then nothing was written."""
    document = msgspec.json.encode([_row(result) for result in results]).decode()
    return (await connection.execute(_SAVE, {**_mine(lease), "results": document})).rowcount > 0


async def answered_lines(connection: WriteConnection, lease: Lease) -> set[int]:
    """Lines that have a result, from the lease's place on."""
    rows = await connection.execute(_ANSWERED, {**_batch(lease), "from_line": lease.next_line})
    return {row[0] for row in rows}


async def page_of_results(
    connection: WriteConnection, lease: Lease, *, is_error: bool, after: int, limit: int
) -> list[tuple[int, str]]:
    values = {**_batch(lease), "is_error": is_error, "after": after, "limit": limit}
    return [(row[0], row[1]) for row in await connection.execute(_PAGE, values)]


async def end(
    connection: WriteConnection,
    lease: Lease,
    state: BatchState,
    now: datetime,
    *,
    output_file_id: str | None = None,
    error_file_id: str | None = None,
    errors: Sequence[LineError] = (),
) -> bool:
    """The batch is over. False if the lease is lost: then roll back."""
    ended = text(
        f"""
        UPDATE batch SET state = :state, {state}_at = :now, lease_owner = NULL, output_file_id = :output_file_id,
            error_file_id = :error_file_id, errors = coalesce(CAST(:errors AS jsonb), errors)
        WHERE {_MINE} AND state IN {ACTIVE_SQL}
        """
    )
    values = {
        **_mine(lease),
        "state": state,
        "now": now,
        "output_file_id": output_file_id,
        "error_file_id": error_file_id,
        "errors": msgspec.json.encode(errors).decode() if errors else None,
    }
    if not (await connection.execute(ended, values)).rowcount:
        return False
    await connection.execute(_DROP_RESULTS, _batch(lease))
    return True


def _batch(lease: Lease) -> dict[str, Any]:
    return {"tenant_id": lease.batch.tenant_id, "id": lease.batch.id}


def _mine(lease: Lease) -> dict[str, Any]:
    return {**_batch(lease), "epoch": lease.epoch}


def _row(result: Result) -> dict[str, Any]:
    usage = result.usage
    return {
        "line": result.line,
        "is_error": result.is_error,
        "content": result.content,
        "input_tokens": usage.prompt_tokens if usage else 0,
        "cached_tokens": usage.cached_tokens if usage else 0,
        "output_tokens": usage.completion_tokens if usage else 0,
        "reasoning_tokens": usage.reasoning_tokens if usage else 0,
    }
