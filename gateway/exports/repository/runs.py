"""Rows of `export_run`: asked for, scheduled, leased to a worker, and how they ended."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import func, insert, select, text, update

from gateway.db import ReadSession, WriteSession
from gateway.exports.models import ExportRun
from gateway.exports.repository.closed import is_closed, recent_days
from gateway.exports.types import ExportSpec, FormatName, Period
from gateway.ids import IdSource

__all__ = [
    "claim",
    "delay",
    "finish",
    "get",
    "page",
    "renew",
    "request",
    "schedule",
    "spec_of",
    "take",
    "tenant_exists",
]

ATTEMPTS_MAX = 12
CATCH_UP_DAYS = 40

_DUE = text(
    """
    SELECT id FROM export_run
    WHERE status IN ('queued', 'running') AND next_attempt_at <= now() AND destination = :destination
    ORDER BY next_attempt_at LIMIT 1 FOR UPDATE SKIP LOCKED
    """
)
# Not one that somebody is at: its lease has not ended.
_UNFINISHED = text(
    """
    SELECT id FROM export_run
    WHERE format = :format AND tenant_id IS NOT DISTINCT FROM CAST(:tenant_id AS text) AND period_start = :start
        AND period_end = :end AND destination = :destination
        AND (status IN ('queued', 'failed') OR status = 'running' AND next_attempt_at <= now())
    ORDER BY id DESC LIMIT 1 FOR UPDATE SKIP LOCKED
    """
)
_DELAY = text(
    """
    UPDATE export_run SET error = :error,
        status = CASE WHEN :is_final OR attempts >= :attempts_max THEN 'failed' ELSE 'queued' END,
        next_attempt_at = CASE WHEN :is_final OR attempts >= :attempts_max THEN NULL
            ELSE now() + least(interval '1 minute' * power(2, attempts - 1), interval '6 hours') END,
        finished_at = CASE WHEN :is_final OR attempts >= :attempts_max THEN now() END
    WHERE id = :id AND status = 'running'
    RETURNING status
    """
)
_SCHEDULED = text(
    "SELECT period_start FROM export_run WHERE is_scheduled AND format = :format AND period_start >= :since"
)
_SCHEDULE = text(
    """
    INSERT INTO export_run (id, format, period_start, period_end, destination, is_scheduled, requested_by)
    VALUES (:id, :format, :start, :end, :destination, true, 'schedule')
    ON CONFLICT DO NOTHING
    """
)


async def request(
    session: WriteSession, run_id: str, spec: ExportSpec, destination: str, requested_by: str
) -> ExportRun:
    """A new run for the workers."""
    statement = insert(ExportRun).values(
        id=run_id,
        format=spec.format,
        tenant_id=spec.tenant_id,
        period_start=spec.period.start,
        period_end=spec.period.end,
        destination=destination,
        requested_by=requested_by,
    )
    return (await session.execute(statement.returning(ExportRun))).scalar_one()


async def take(
    session: WriteSession,
    run_id: str,
    spec: ExportSpec,
    destination: str,
    requested_by: str,
    lease: timedelta,
) -> ExportRun:
    """A run of this export for the caller to make itself: one that was left unfinished, else a new one."""
    values = {
        "format": spec.format,
        "tenant_id": spec.tenant_id,
        "start": spec.period.start,
        "end": spec.period.end,
        "destination": destination,
    }
    found = (await session.execute(_UNFINISHED, values)).scalar_one_or_none()
    if found is None:
        await request(session, run_id, spec, destination, requested_by)
    return await _leased(session, found or run_id, lease)


async def schedule(session: WriteSession, format: FormatName, destination: str, ids: IdSource) -> None:
    """A run for each day that has been closed since events are there, as far back as `CATCH_UP_DAYS`."""
    first, last = await recent_days(session, CATCH_UP_DAYS)
    scheduled = set((await session.execute(_SCHEDULED, {"format": format, "since": first})).scalars())
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        end = day + timedelta(days=1)
        if day not in scheduled and await is_closed(session, ExportSpec(format, Period(day, end))):
            values = {"id": ids.new("export"), "format": format, "start": day, "end": end}
            await session.execute(_SCHEDULE, {**values, "destination": destination})


async def claim(session: WriteSession, destination: str, lease: timedelta) -> ExportRun | None:
    """A due run of this destination, or one whose worker has died; nobody else gets it until the lease ends."""
    found = (await session.execute(_DUE, {"destination": destination})).scalar_one_or_none()
    return await _leased(session, found, lease) if found is not None else None


async def renew(session: WriteSession, run_id: str, lease: timedelta) -> None:
    running = update(ExportRun).where(ExportRun.id == run_id, ExportRun.status == "running")
    await session.execute(running.values(next_attempt_at=func.now() + lease))


async def finish(session: WriteSession, run_id: str, manifest: dict[str, Any]) -> None:
    changed = {
        "status": "succeeded",
        "manifest": manifest,
        "error": None,
        "next_attempt_at": None,
        "finished_at": func.now(),
    }
    await session.execute(update(ExportRun).where(ExportRun.id == run_id).values(changed))


async def delay(session: WriteSession, run_id: str, error: str, *, is_final: bool) -> str:
    """Records a failure and when to try again, if that can help; the status now."""
    values = {"id": run_id, "error": error, "is_final": is_final, "attempts_max": ATTEMPTS_MAX}
    return str((await session.execute(_DELAY, values)).scalar_one_or_none() or "lost")


async def get(session: ReadSession | WriteSession, run_id: str) -> ExportRun | None:
    return await session.get(ExportRun, run_id)


async def page(
    session: ReadSession, tenant_id: str | None, before: str | None, limit: int
) -> Sequence[ExportRun]:
    """Newest first: ids are ordered by time."""
    query = select(ExportRun).order_by(ExportRun.id.desc()).limit(limit)
    if tenant_id is not None:
        query = query.where(ExportRun.tenant_id == tenant_id)
    if before is not None:
        query = query.where(ExportRun.id < before)
    return (await session.scalars(query)).all()


async def tenant_exists(session: WriteSession | ReadSession, tenant_id: str) -> bool:
    found = await session.execute(text("SELECT 1 FROM tenant WHERE id = :id"), {"id": tenant_id})
    return found.one_or_none() is not None


def spec_of(run: ExportRun) -> ExportSpec:
    return ExportSpec(run.format, Period(run.period_start, run.period_end), run.tenant_id)  # type: ignore[arg-type]  # a check says so


async def _leased(session: WriteSession, run_id: str, lease: timedelta) -> ExportRun:
    changed = {
        "status": "running",
        "attempts": ExportRun.attempts + 1,
        "next_attempt_at": func.now() + lease,
        "finished_at": None,
    }
    statement = update(ExportRun).where(ExportRun.id == run_id).values(changed).returning(ExportRun)
    return (await session.execute(statement, execution_options={"synchronize_session": False})).scalar_one()
