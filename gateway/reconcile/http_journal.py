"""The journal reader for engines of our own, over their internal HTTP API.

Knows the two documents `/internal/status` and `/internal/usage`; not what is done with them.
"""

from datetime import UTC, datetime, timedelta
from typing import Literal, TypeVar
from urllib.parse import quote

import msgspec

from gateway.ids import RequestId
from gateway.reconcile.journal import (
    JournalPage,
    JournalRecord,
    NoJournal,
    ReplicaRef,
    ReplicaStatus,
    ReplicaUnreachable,
)
from gateway.upstream.client import UpstreamClient, UpstreamError
from gateway.upstream.native import authorization

__all__ = ["HttpJournalReader"]

Document = TypeVar("Document")

CALL_TIMEOUT_S = 5.0
_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)


class _Record(msgspec.Struct):
    """One record as the engine writes it; what does not apply to its kind is null."""

    kind: Literal["start", "progress", "end"]
    at_ms: int
    request_id: str | None = None
    attempt: int | None = None
    epoch: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    overrun_tokens: int | None = None
    finish_reason: str | None = None
    queue_ms: float | None = None
    ttft_ms: float | None = None
    e2e_ms: float | None = None


class _Page(msgspec.Struct):
    records: list[_Record]
    cursor: str
    complete: bool


class _Status(msgspec.Struct):
    epoch: str | None
    request_ids: list[str]


class HttpJournalReader:
    """Asks replicas with the internal key. Answers that cannot be read count as unreachable."""

    def __init__(self, client: UpstreamClient, internal_key: str | None) -> None:
        self._client = client
        self._headers = authorization(internal_key)

    async def status(self, replica: ReplicaRef) -> ReplicaStatus:
        found = _decode(await self._get(replica, "/internal/status"), _Status)
        return ReplicaStatus(found.epoch or "", frozenset(map(RequestId, found.request_ids)))

    async def read(self, replica: ReplicaRef, after: str | None, limit: int) -> JournalPage:
        path = f"/internal/usage?limit={limit}"
        page = _decode(await self._get(replica, path + (f"&after={quote(after)}" if after else "")), _Page)
        records = tuple(_record(one, one.request_id) for one in page.records if one.request_id is not None)
        return JournalPage(records, page.cursor, page.complete)

    async def _get(self, replica: ReplicaRef, path: str) -> bytes:
        if replica.url is None:
            raise ReplicaUnreachable(f"{replica.replica_id} has no address")
        try:
            status, body = await self._client.fetch(
                "GET", replica.url.rstrip("/") + path, self._headers, None, CALL_TIMEOUT_S
            )
        except UpstreamError as error:
            raise ReplicaUnreachable(str(error)) from error
        if status == 404:
            raise NoJournal(replica.replica_id)
        if status != 200:
            raise ReplicaUnreachable(f"{path} answered {status}")
        return body


def _decode(body: bytes, document: type[Document]) -> Document:
    try:
        return msgspec.json.decode(body, type=document)
    except msgspec.DecodeError as error:
        raise ReplicaUnreachable(f"not understood: {error}") from error


def _record(one: _Record, request_id: str) -> JournalRecord:
    prompt = one.prompt_tokens or 0
    return JournalRecord(
        kind=one.kind,
        request_id=RequestId(request_id),
        attempt=one.attempt or 0,
        epoch=one.epoch or "",
        at=_EPOCH_START + timedelta(milliseconds=one.at_ms),
        prompt_tokens=prompt,
        cached_tokens=min(one.cached_tokens or 0, prompt),
        completion_tokens=one.completion_tokens or 0,
        overrun_tokens=one.overrun_tokens or 0,
        finish_reason=one.finish_reason,
        queue_ms=_whole(one.queue_ms),
        ttft_ms=_whole(one.ttft_ms),
        e2e_ms=_whole(one.e2e_ms),
    )


def _whole(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else round(milliseconds)
