"""`/v1/batches`: asked for, looked at, listed, cancelled. The tenant's own batches and nobody else's."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson

from gateway.batches.service import BatchService, Wanted
from gateway.batches.types import BatchRow
from gateway.errors import InvalidRequest, InvalidValue, MissingParameter
from gateway.http.auth import Authenticator
from gateway.http.call import Call
from gateway.http.storage import (
    JSON,
    Json,
    database_may_be_away,
    expiry_s,
    limit_of,
    page_of,
    query_of,
)
from gateway.tenancy.principal import MODEL_SCOPE, Principal
from gateway.wire.request import read_object

__all__ = ["BatchRoutes"]

BODY_BYTES_MAX = 64 * 1024
LABELS_MAX, LABEL_CHARS_MAX, VALUE_CHARS_MAX = 16, 64, 512
_FIELDS = ("endpoint", "input_file_id", "completion_window")
_OPTIONAL = ("metadata", "output_expires_after")
_TIMES = (
    *(
        "created_at",
        "expires_at",
        "in_progress_at",
        "finalizing_at",
        "completed_at",
        "failed_at",
        "expired_at",
    ),
    *("cancelling_at", "cancelled_at"),
)


class BatchRoutes:
    def __init__(self, auth: Authenticator, batches: BatchService) -> None:
        self._auth = auth
        self._batches = batches

    async def create(self, call: Call) -> None:
        principal = await self._caller(call)
        wanted = _wanted(read_object(await call.body(BODY_BYTES_MAX)))
        with database_may_be_away():
            row = await self._batches.create(principal, wanted)
        await _answer(call, row)

    async def list(self, call: Call) -> None:
        principal = await self._caller(call)
        query = query_of(call, ("after", "limit"))
        limit = limit_of(query, 20, 100)
        with database_may_be_away():
            rows = await self._batches.page(principal.tenant_id, limit + 1, query.get("after"))
        await call.answer(200, JSON, page_of([_batch(row) for row in rows], limit))

    async def retrieve(self, call: Call, batch_id: str) -> None:
        principal = await self._caller(call)
        with database_may_be_away():
            row = await self._batches.get(principal.tenant_id, batch_id)
        await _answer(call, row)

    async def cancel(self, call: Call, batch_id: str) -> None:
        principal = await self._caller(call)
        with database_may_be_away():
            row = await self._batches.cancel(principal.tenant_id, batch_id)
        await _answer(call, row)

    async def _caller(self, call: Call) -> Principal:
        call.endpoint = "batches"
        return await self._auth.tenant(call, MODEL_SCOPE)


def _wanted(fields: Json) -> Wanted:
    for name in fields:
        if name not in (*_FIELDS, *_OPTIONAL):
            raise InvalidRequest(f"Unknown parameter: '{name}'.", name)
    for name in _FIELDS:
        if fields.get(name) is None:
            raise MissingParameter(name)
        if not isinstance(fields[name], str) or "\0" in fields[name]:
            raise InvalidRequest(f"'{name}' must be a string.", name)
    policy = fields.get("output_expires_after")
    if policy is not None and not isinstance(policy, dict):
        raise InvalidRequest("'output_expires_after' must be an object.", "output_expires_after")
    return Wanted(
        endpoint=fields["endpoint"],
        input_file_id=fields["input_file_id"],
        completion_window=fields["completion_window"],
        labels=_labels(fields.get("metadata")),
        output_expires_after_s=expiry_s(policy, "output_expires_after"),
    )


def _labels(metadata: Any) -> dict[str, str] | None:
    if metadata is None:
        return None
    if not isinstance(metadata, dict):
        raise InvalidRequest("'metadata' must be an object.", "metadata")
    if len(metadata) > LABELS_MAX:
        raise InvalidValue(f"'metadata' has {LABELS_MAX} entries at most.", "metadata")
    for name, value in metadata.items():
        is_text = isinstance(value, str) and "\0" not in name + value
        if not is_text or len(name) > LABEL_CHARS_MAX or len(value) > VALUE_CHARS_MAX:
            raise InvalidValue(
                f"An entry of 'metadata' has a name of {LABEL_CHARS_MAX} characters at most, and a string of"
                f" {VALUE_CHARS_MAX}.",
                "metadata",
            )
    return metadata


async def _answer(call: Call, row: BatchRow) -> None:
    await call.answer(200, JSON, orjson.dumps(_batch(row)))


def _batch(row: BatchRow) -> Json:
    return {
        "id": row.id,
        "object": "batch",
        "endpoint": row.endpoint,
        "model": row.model,
        "errors": {"object": "list", "data": list(row.errors)} if row.errors else None,
        "input_file_id": row.input_file_id,
        "completion_window": row.completion_window,
        "status": row.state,
        "output_file_id": row.output_file_id,
        "error_file_id": row.error_file_id,
        **{name: _unix(getattr(row, name)) for name in _TIMES},
        "request_counts": {"total": row.total, "completed": row.completed, "failed": row.failed},
        "usage": {
            "input_tokens": row.input_tokens,
            "input_tokens_details": {"cached_tokens": row.cached_tokens},
            "output_tokens": row.output_tokens,
            "output_tokens_details": {"reasoning_tokens": row.reasoning_tokens},
            "total_tokens": row.input_tokens + row.output_tokens,
        },
        "metadata": row.labels,
    }


def _unix(at: datetime | None) -> int | None:
    return int(at.timestamp()) if at is not None else None
