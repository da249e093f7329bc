"""What the windows hold, and how every series stands, as rows that the worker writes and the console reads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import text

from gateway.db import WriteConnection
from gateway.ledger.buckets import Width
from gateway.slo.burn import Slice
from gateway.slo.types import Series, State, Sums

__all__ = ["counted_slices", "write_states"]

_TABLES: dict[Width, str] = {"1m": "slo_minute", "1h": "slo_hour", "1d": "slo_day"}
_KEY = "tenant_id, served_model, request_class, sli"


def _part(width: Width, table: str) -> str:
    return f"""
    SELECT part.slice, {_KEY}, threshold_us, good, total
    FROM unnest(CAST(:slices_{width} AS bigint[]), CAST(:firsts_{width} AS timestamptz[]),
            CAST(:afters_{width} AS timestamptz[])) AS part (slice, first, after)
        JOIN {table} r ON r.bucket >= part.first AND r.bucket < part.after
    """


_SLICES = text(
    f"""
    SELECT slice, {_KEY}, threshold_us, CAST(sum(good) AS bigint) AS good, CAST(sum(total) AS bigint) AS total
    FROM ({" UNION ALL ".join(_part(width, table) for width, table in _TABLES.items())}) parts
    GROUP BY slice, {_KEY}, threshold_us
    """
)
_WRITE = text(
    f"""
    WITH given AS (
        SELECT * FROM json_populate_recordset(CAST(NULL AS objective_state), CAST(:rows AS json))
    ), gone AS (
        DELETE FROM objective_state s WHERE NOT EXISTS (
            SELECT FROM given g WHERE (g.tenant_id, g.served_model, g.request_class, g.sli)
                = (s.tenant_id, s.served_model, s.request_class, s.sli))
    )
    INSERT INTO objective_state ({_KEY}, objective_id, threshold_us, target_ppm, good, total, budget_left, burn, evaluated_at)
    SELECT {_KEY}, objective_id, threshold_us, target_ppm, good, total, budget_left, burn, evaluated_at FROM given
    ORDER BY tenant_id COLLATE "C", served_model COLLATE "C", request_class COLLATE "C", sli COLLATE "C"
    ON CONFLICT ({_KEY}) DO UPDATE SET objective_id = EXCLUDED.objective_id, threshold_us = EXCLUDED.threshold_us,
        target_ppm = EXCLUDED.target_ppm, good = EXCLUDED.good, total = EXCLUDED.total,
        budget_left = EXCLUDED.budget_left, burn = EXCLUDED.burn, evaluated_at = EXCLUDED.evaluated_at
    """
)
# Two workers that write at once would wait for each other's rows in turn; the second one has nothing newer to say.
_ALONE = text("SELECT pg_try_advisory_xact_lock(8245300917)")


async def counted_slices(
    connection: WriteConnection, parts: Sequence[Slice]
) -> dict[tuple[Series, int], dict[int, Sums]]:
    """By series and threshold, then by the start of the slice."""
    values: dict[str, list[Any]] = {}
    for width in _TABLES:
        found = [(part.start, one) for part in parts for one in part.segments if one.width == width]
        values[f"slices_{width}"] = [start for start, _ in found]
        values[f"firsts_{width}"] = [datetime.fromtimestamp(one.start, UTC) for _, one in found]
        values[f"afters_{width}"] = [datetime.fromtimestamp(one.end, UTC) for _, one in found]
    counted: dict[tuple[Series, int], dict[int, Sums]] = {}
    for row in await connection.execute(_SLICES, values):
        series = Series(row.tenant_id, row.served_model, row.request_class, row.sli)
        counted.setdefault((series, row.threshold_us), {})[row.slice] = Sums(row.good, row.total)
    return counted


async def write_states(connection: WriteConnection, states: Sequence[State], at: datetime) -> None:
    """In place of all that were there."""
    if not (await connection.execute(_ALONE)).scalar_one():
        return
    rows = [
        {
            "tenant_id": one.series.tenant_id,
            "served_model": one.series.served_model,
            "request_class": one.series.request_class,
            "sli": one.series.sli,
            "objective_id": one.objective.id,
            "threshold_us": one.objective.threshold_us,
            "target_ppm": one.objective.target_ppm,
            "good": one.sums.good,
            "total": one.sums.total,
            "budget_left": one.budget_left,
            "burn": one.burn,
            "evaluated_at": at,
        }
        for one in states
    ]
    await connection.execute(_WRITE, {"rows": msgspec.json.encode(rows).decode()})
