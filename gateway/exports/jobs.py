"""Runs: what is scheduled or asked for is made by a worker, with its failures recorded and tried again.

A worker holds a run by a lease that it renews; when it dies, the next one takes the export up where its parts end. A
failure that trying again cannot help ends the run, others do after `ATTEMPTS_MAX` attempts over two days.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import orjson

from gateway.db import DATABASE_ERRORS, Database, reason
from gateway.events import Event, announce
from gateway.exports.builder import Progress
from gateway.exports.models import ExportRun
from gateway.exports.repository import deliveries, runs
from gateway.exports.service import export
from gateway.exports.store import BlobStore
from gateway.exports.stripe import MeterLine
from gateway.exports.types import ExportError, ExportSpec, FormatName
from gateway.ids import IdSource
from gateway.obs.metrics import Metrics

__all__ = ["LEASE", "ExportJobs"]

LEASE = timedelta(minutes=1)


class ExportJobs:
    """Has no state: everything is in the rows, so that several workers may run at once."""

    def __init__(
        self,
        database: Database,
        store: BlobStore,
        ids: IdSource,
        metrics: Metrics,
        *,
        formats: tuple[FormatName, ...] = (),
        delivers: bool = False,
    ) -> None:
        """`formats` are scheduled; `delivers`: their meter events are queued for Stripe."""
        self._database = database
        self._store = store
        self._ids = ids
        self._metrics = metrics
        self._formats = formats
        self._delivers = delivers

    async def run_due(self) -> None:
        """Until nothing is due. The failure of a run is recorded in its row and raised; the others are still due."""
        async with self._database.write() as session:
            for format in self._formats:
                await runs.schedule(session, format, self._store.address, self._ids)
        while True:
            async with self._database.write() as session:
                run = await runs.claim(session, self._store.address, LEASE)
            if run is None:
                return
            await self._execute(run, _silent, resume=True)

    async def make(
        self, spec: ExportSpec, requested_by: str, progress: Progress, *, resume: bool = True
    ) -> bytes:
        """One export now, in this process; its manifest."""
        async with self._database.write() as session:
            run_id = self._ids.new("export")
            run = await runs.take(session, run_id, spec, self._store.address, requested_by, LEASE)
        return await self._execute(run, progress, resume=resume)

    async def _execute(self, run: ExportRun, progress: Progress, *, resume: bool) -> bytes:
        spec = runs.spec_of(run)
        try:
            async with self._held(run.id):
                manifest = await export(self._database, self._store, spec, progress, resume=resume)
                await self._succeeded(run, spec, manifest)
        except asyncio.CancelledError:
            await self._failed(run, ExportError("interrupted"))
            raise
        except Exception as error:
            await self._failed(run, error)
            raise
        self._metrics.export_runs.labels(run.format, "succeeded").inc()
        return manifest

    async def _succeeded(self, run: ExportRun, spec: ExportSpec, manifest: bytes) -> None:
        """What is to be delivered is queued in the transaction that ends the run."""
        document = orjson.loads(manifest)
        lines: list[MeterLine] = []
        if run.is_scheduled and run.format == "stripe" and self._delivers:
            for file in document["files"]:
                content = b"".join([piece async for piece in self._store.read(spec.prefix, file["name"])])
                lines += map(MeterLine.read, content.splitlines())
        async with self._database.write() as session:
            await deliveries.enqueue(session, run.id, lines)
            await runs.finish(session, run.id, document)
            await announce(session, [self._event(run, spec)])

    def _event(self, run: ExportRun, spec: ExportSpec) -> Event:
        """The organisation's, a tenant's export too: it asked for none."""
        period = spec.period
        payload = {
            "export_id": run.id,
            "format": run.format,
            "project_id": run.tenant_id,
            "start_date": period.start.isoformat(),
            "end_date": period.end.isoformat(),
            "summary": f"Export of {run.format} from {period.start} to {period.end} is ready.",
        }
        return Event("export.finished", None, run.id, payload, self._ids.clock.now())

    async def _failed(self, run: ExportRun, error: Exception) -> None:
        said = str(error) if isinstance(error, ExportError) else f"{type(error).__name__}: {reason(error)}"
        is_final = isinstance(error, ExportError) and error.is_final
        self._metrics.export_runs.labels(run.format, "failed").inc()
        # Without the database the row stays as it is, and its lease ends by itself.
        with suppress(*DATABASE_ERRORS):
            async with self._database.write() as session:
                await runs.delay(session, run.id, said, is_final=is_final)

    @asynccontextmanager
    async def _held(self, run_id: str) -> AsyncIterator[None]:
        """The lease is renewed until the block ends."""
        renewing = asyncio.create_task(self._renew(run_id))
        try:
            yield
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    async def _renew(self, run_id: str) -> None:
        while True:
            await asyncio.sleep(LEASE.total_seconds() / 3)
            with suppress(*DATABASE_ERRORS):
                async with self._database.write() as session:
                    await runs.renew(session, run_id, LEASE)


def _silent(done: int, total: int) -> None:
    """Nobody watches."""
