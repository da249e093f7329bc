"""`/v1/files`: forms in, contents out, both in pieces. The tenant's own files and nobody else's."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Literal, cast

import orjson

from gateway.batches.files import FILE_BYTES_MAX, FileStore, Uploaded
from gateway.batches.repository.files import FilePage
from gateway.batches.types import FileRow
from gateway.errors import (
    BodyTooLarge,
    ClientError,
    InvalidRequest,
    InvalidValue,
    MissingParameter,
    ServiceUnavailable,
)
from gateway.http.auth import Authenticator
from gateway.http.call import Call
from gateway.http.storage import (
    JSON,
    Json,
    chosen,
    database_may_be_away,
    expiry_s,
    limit_of,
    page_of,
    query_of,
)
from gateway.ids import TenantId
from gateway.tenancy.principal import MODEL_SCOPE
from gateway.wire.multipart import Event, Field, FileBegins, FilePiece, MultipartReader, boundary_of

__all__ = ["FileRoutes"]

FORM_BYTES = 1 << 20
"""What a form may hold beside the file."""
UPLOADS_AT_ONCE = 32
PURPOSES = ("batch",)
LIST_MAX = 10_000
_EXPIRY = re.compile(r"expires_after\[(anchor|seconds)\]")


class FileRoutes:
    def __init__(self, auth: Authenticator, files: FileStore) -> None:
        self._auth = auth
        self._files = files
        self._uploads = 0

    async def create(self, call: Call) -> None:
        tenant_id = await self._tenant(call)
        boundary = boundary_of(call.header(b"content-type"))
        declared = call.header(b"content-length")
        if declared is not None and declared.isdecimal() and int(declared) > FILE_BYTES_MAX + FORM_BYTES:
            raise BodyTooLarge(FILE_BYTES_MAX)
        if self._uploads >= UPLOADS_AT_ONCE:
            raise ServiceUnavailable("Too many files are being uploaded right now. Please retry in a moment.")
        self._uploads += 1
        try:
            with database_may_be_away():
                row = await self._upload(tenant_id, _Form(_events(call, MultipartReader(boundary))))
        finally:
            self._uploads -= 1
        await call.answer(200, JSON, orjson.dumps(_file(row)))

    async def list(self, call: Call) -> None:
        tenant_id = await self._tenant(call)
        query = query_of(call, ("after", "limit", "order", "purpose"))
        limit = limit_of(query, LIST_MAX, LIST_MAX)
        order = cast(Literal["asc", "desc"], chosen(query, "order", ("asc", "desc")) or "desc")
        page = FilePage(limit + 1, query.get("after"), order, query.get("purpose"))
        with database_may_be_away():
            rows = await self._files.page(tenant_id, page)
        await call.answer(200, JSON, page_of([_file(row) for row in rows], limit))

    async def retrieve(self, call: Call, file_id: str) -> None:
        row = await self._row(call, file_id)
        await call.answer(200, JSON, orjson.dumps(_file(row)))

    async def content(self, call: Call, file_id: str) -> None:
        row = await self._row(call, file_id)
        pieces = self._files.content(row)
        first = await anext(pieces)  # what is not there is a 404, not a broken answer
        await call.pieces({"content-type": "application/octet-stream"}, row.bytes, first, pieces)

    async def delete(self, call: Call, file_id: str) -> None:
        tenant_id = await self._tenant(call)
        with database_may_be_away():
            await self._files.delete(tenant_id, file_id)
        await call.answer(200, JSON, orjson.dumps({"id": file_id, "object": "file", "deleted": True}))

    async def _row(self, call: Call, file_id: str) -> FileRow:
        tenant_id = await self._tenant(call)
        with database_may_be_away():
            return await self._files.get(tenant_id, file_id)

    async def _upload(self, tenant_id: TenantId, form: _Form) -> FileRow:
        """The fields may come after the file, so it is only now known whether it is one that we keep."""
        async for filename, pieces in form.files():
            form.uploaded = await self._files.receive(tenant_id, filename, pieces)
        if form.uploaded is None:
            raise MissingParameter("file")
        try:
            return await self._files.finish(tenant_id, form.uploaded, form.checked_expiry_s())
        except ClientError:
            await self._files.discard(tenant_id, form.uploaded.id)
            raise

    async def _tenant(self, call: Call) -> TenantId:
        call.endpoint = "files"
        return (await self._auth.tenant(call, MODEL_SCOPE)).tenant_id


class _Form:
    """The fields of an upload, as they come; the file's content passes through."""

    def __init__(self, events: AsyncIterator[Event]) -> None:
        self._events = events
        self._next: Event | None = None
        self._fields: dict[str, str] = {}
        self.uploaded: Uploaded | None = None

    async def files(self) -> AsyncIterator[tuple[str, AsyncIterator[bytes]]]:
        """The one file, to be read to its end before the next step."""
        while (event := await self._take()) is not None:
            if isinstance(event, Field):
                self._fields[event.name] = event.value
            elif isinstance(event, FileBegins):
                if event.name != "file" or self.uploaded is not None:
                    raise InvalidRequest("One file is expected, in the field 'file'.", event.name)
                yield event.filename, self._pieces()

    def checked_expiry_s(self) -> int | None:
        """Raises 400 for fields that are missing or make no sense."""
        purpose, policy = self._fields.get("purpose"), {}
        if purpose is None:
            raise MissingParameter("purpose")
        if purpose not in PURPOSES:
            raise InvalidValue(f"'purpose' must be one of {', '.join(PURPOSES)}.", "purpose")
        for name, value in self._fields.items():
            part = _EXPIRY.fullmatch(name)
            if part:
                policy[part[1]] = value
            elif name != "purpose":
                raise InvalidRequest(f"Unknown parameter: '{name}'.", name)
        return expiry_s(policy, "expires_after")

    async def _pieces(self) -> AsyncIterator[bytes]:
        while (event := await self._take()) is not None:
            if not isinstance(event, FilePiece):
                self._next = event
                return
            yield event.data

    async def _take(self) -> Event | None:
        event, self._next = self._next, None
        return event if event is not None else await anext(self._events, None)


async def _events(call: Call, reader: MultipartReader) -> AsyncIterator[Event]:
    async for data in call.body_pieces(FILE_BYTES_MAX + FORM_BYTES):
        for event in reader.feed(data):
            yield event
    if not reader.is_complete:
        raise InvalidRequest("The multipart body ends too early.")


def _file(row: FileRow) -> Json:
    return {
        "id": row.id,
        "object": "file",
        "bytes": row.bytes,
        "created_at": int(row.created_at.timestamp()),
        "expires_at": int(row.expires_at.timestamp()) if row.expires_at is not None else None,
        "filename": row.filename,
        "purpose": row.purpose,
        "status": "processed",
        "status_details": None,
    }
