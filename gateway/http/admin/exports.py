"""Exports: ask for one, see how it went, download its files. A worker makes it; where it goes is configured, not asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import date
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from gateway.db import ReadSession, WriteSession
from gateway.errors import Conflict, InvalidValue, NotFound, ServiceUnavailable
from gateway.exports.models import ExportRun
from gateway.exports.repository import runs
from gateway.exports.repository.closed import is_closed
from gateway.exports.store import BlobStore
from gateway.exports.types import ExportError, ExportSpec, FormatName, Period
from gateway.http.admin.common import AdminParts, After, Body, Json, Limit, Page, page_of, record, unix

__all__ = ["ExportRoutes"]

MANIFEST = "manifest.json"
_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "parquet": "application/vnd.apache.parquet",
}


class ExportBody(Body):
    """Whole days, UTC; `end_date` is the day after the last. Without a project it is all of them."""

    format: FormatName
    start_date: date
    end_date: date
    project_id: str | None = None


class ExportRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts

    def register(self, router: APIRouter) -> None:
        one = "/exports/{export_id}"
        router.add_api_route("/exports", self.create, methods=["POST"])
        router.add_api_route("/exports", self.list, methods=["GET"])
        router.add_api_route(one, self.retrieve, methods=["GET"])
        router.add_api_route(f"{one}/files/{{name}}", self.download, methods=["GET"])

    async def create(self, request: Request, body: ExportBody) -> Json:
        store = self._store()
        if body.start_date >= body.end_date:
            raise InvalidValue("The end is the day after the last one.", "end_date")
        spec = ExportSpec(body.format, Period(body.start_date, body.end_date), body.project_id)
        async with self._p.database.write() as session:
            if body.project_id is not None and not await runs.tenant_exists(session, body.project_id):
                raise NotFound("No such project.")
            if not await is_closed(session, spec):
                raise InvalidValue(
                    "Only closed days are exported: a day is two hours after its end, the last one of a month when "
                    "its month is.",
                    "end_date",
                )
            run_id = self._p.ids.new("export")
            run = await runs.request(session, run_id, spec, store.address, "admin api")
            details = {"after": body.model_dump(mode="json")}
            resource = ("export", run_id)
            await record(self._p, session, request, "export.created", resource, body.project_id, details)
            return _run(run)

    async def list(
        self,
        project_id: Annotated[str | None, Query(max_length=200)] = None,
        limit: Limit = 20,
        after: After = None,
    ) -> Page:
        async with self._p.database.read() as session:
            rows = await runs.page(session, project_id, after, limit + 1)
            return page_of([_run(row) for row in rows], limit)

    async def retrieve(self, export_id: str) -> Json:
        async with self._p.database.read() as session:
            return _run(await self._found(session, export_id))

    async def download(self, request: Request, export_id: str, name: str) -> Response:
        """Streamed from the destination. What was exported is nobody's guess: each download leaves an audit row."""
        async with self._p.database.write() as session:
            run = await self._found(session, export_id)
            file = _file(run, name)
            store = self._store()
            if run.destination != store.address:
                raise Conflict("The export is at a destination that is no longer the configured one.")
            resource = ("export", export_id)
            await record(
                self._p, session, request, "export.downloaded", resource, run.tenant_id, {"file": name}
            )
            prefix = runs.spec_of(run).prefix
        pieces = store.read(prefix, name)
        try:
            first = await anext(pieces, b"")
        except FileNotFoundError:
            raise NotFound("The file is no longer there.") from None
        except ExportError:
            raise ServiceUnavailable("The destination of the exports cannot be reached right now.") from None
        headers = {"content-disposition": f'attachment; filename="{name}"', **file}
        return StreamingResponse(
            _resumed(first, pieces), media_type=_TYPES[name.rpartition(".")[2]], headers=headers
        )

    async def _found(self, session: ReadSession | WriteSession, export_id: str) -> ExportRun:
        run = await runs.get(session, export_id)
        if run is None:
            raise NotFound("No such export.")
        return run

    def _store(self) -> BlobStore:
        if self._p.exports is None:
            raise Conflict("No destination for exports is configured (TOLLWAY_EXPORTS__DESTINATION).")
        return self._p.exports


def _file(run: ExportRun, name: str) -> dict[str, str]:
    """Headers that its reader can check it by. Only what the manifest names can be read at all."""
    if run.manifest is not None and name == MANIFEST:
        return {}
    for file in (run.manifest or {}).get("files", ()):
        if file["name"] == name:
            return {"content-length": str(file["bytes"]), "x-content-sha256": file["sha256"]}
    raise NotFound("The export has no such file.")


async def _resumed(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


def _run(run: ExportRun) -> Json:
    manifest = run.manifest or {}
    return {
        "object": "organization.export",
        "id": run.id,
        "format": run.format,
        "project_id": run.tenant_id,
        "start_date": run.period_start.isoformat(),
        "end_date": run.period_end.isoformat(),
        "destination": run.destination,
        "status": run.status,
        "scheduled": run.is_scheduled,
        "attempts": run.attempts,
        "error": run.error,
        "rows": manifest.get("rows"),
        "totals": manifest.get("totals"),
        "files": manifest.get("files"),
        "created_at": unix(run.created_at),
        "finished_at": unix(run.finished_at),
    }
