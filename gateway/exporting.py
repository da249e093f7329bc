"""What is behind `tollway export`: one export now, with a progress bar, and a summary.

Place: between the command line and the exports. It holds no rule of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gateway.clock import SystemClock
from gateway.db import Database
from gateway.exports.builder import Progress as Report
from gateway.exports.destination import configured_store, store_of
from gateway.exports.jobs import ExportJobs
from gateway.exports.repository.runs import tenant_exists
from gateway.exports.types import ExportError, ExportSpec
from gateway.ids import IdSource
from gateway.migrate import check_schema
from gateway.money import format_usd
from gateway.obs.metrics import Metrics
from gateway.settings import Settings, SettingsError

__all__ = ["export_now"]


async def export_now(settings: Settings, spec: ExportSpec, destination: str | None, *, resume: bool) -> str:
    """What was exported and where it is, in a few lines."""
    chosen = settings.exports
    store = store_of(destination, chosen) if destination is not None else configured_store(chosen)
    if store is None:
        raise SettingsError("give --destination, or set TOLLWAY_EXPORTS__DESTINATION")
    database = Database.of(settings.database, name="tollway-export", pool_size=2, patient=True)
    try:
        await check_schema(database)
        await _require_tenant(database, spec)
        jobs = ExportJobs(database, store, IdSource(SystemClock()), Metrics())
        with _bar(spec.prefix) as report:
            manifest = await jobs.make(spec, "command line", report, resume=resume)
    finally:
        await database.close()
    return _summary(manifest, f"{store.address}/{spec.prefix}")


async def _require_tenant(database: Database, spec: ExportSpec) -> None:
    if spec.tenant_id is None:
        return
    async with database.read() as session:
        if not await tenant_exists(session, spec.tenant_id):
            raise ExportError(f"there is no project {spec.tenant_id}")


@contextmanager
def _bar(title: str) -> Iterator[Report]:
    """On standard error, so that the summary alone can be piped on."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("events"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _summary(manifest: bytes, place: str) -> str:
    document = orjson.loads(manifest)
    totals, files = document["totals"], document["files"]
    return "\n".join(
        (
            f"{totals.get('events', 0)} events, {format_usd(totals.get('amount_nanousd', 0))}, {document['rows']} rows",
            *(f"{place}/{file['name']}  {file['bytes']} bytes  sha256 {file['sha256']}" for file in files),
            f"{place}/manifest.json",
        )
    )
