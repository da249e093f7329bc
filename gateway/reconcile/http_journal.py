"""The journal reader for engines of our own, over their internal HTTP API.

Knows the two documents `/internal/status` and `/internal/usage`; not what is done with them.
"""

from typing import TypeVar
from urllib.parse import quote

import msgspec

from gateway.ids import RequestId
from gateway.reconcile.journal import (
    JournalPage,
    NoJournal,
    ReplicaRef,
    ReplicaStatus,
    ReplicaUnreachable,
)
from gateway.reconcile.records import read_records
from gateway.upstream.client import UpstreamClient, UpstreamError
from gateway.upstream.native import authorization

__all__ = ["HttpJournalReader"]

Document = TypeVar("Document")

CALL_TIMEOUT_S = 5.0


class _Page(msgspec.Struct):
    records: list[msgspec.Raw]
    cursor: str
    complete: bool


class _Status(msgspec.Struct):
    epoch: str | None
    request_ids: list[str]
    state: str = ""


class HttpJournalReader:
    """Asks replicas with the internal key. Answers that cannot be read count as unreachable."""

    def __init__(self, client: UpstreamClient, internal_key: str | None) -> None:
        self._client = client
        self._headers = authorization(internal_key)

    async def status(self, replica: ReplicaRef) -> ReplicaStatus:
        found = _decode(await self._get(replica, "/internal/status"), _Status)
        return ReplicaStatus(
            found.epoch or "", frozenset(map(RequestId, found.request_ids)), found.state == "draining"
        )

    async def read(self, replica: ReplicaRef, after: str | None, limit: int) -> JournalPage:
        path = f"/internal/usage?limit={limit}"
        page = _decode(await self._get(replica, path + (f"&after={quote(after)}" if after else "")), _Page)
        records, unreadable = read_records(bytes(document) for document in page.records)
        return JournalPage(records, page.cursor, page.complete, unreadable)

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
