"""The HTTP reader against a real server that answers as an engine does."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from gateway.ids import PoolId, ReplicaId
from gateway.reconcile.http_journal import HttpJournalReader
from gateway.reconcile.journal import NoJournal, ReplicaRef, ReplicaUnreachable
from gateway.settings import UpstreamSettings
from gateway.upstream.client import UpstreamClient
from tests.patience import LONG_S

RECORD = {
    "kind": "end",
    "request_id": "req_1",
    "engine_request_id": "cmpl-1",
    "attempt": 1,
    "epoch": "e1",
    "prompt_tokens": 10,
    "cached_tokens": 4,
    "completion_tokens": 7,
    "overrun_tokens": None,
    "finish_reason": "stop",
    "queue_ms": 0.4,
    "ttft_ms": 12.6,
    "e2e_ms": 99.5,
    "at_ms": 1_764_417_600_123,
}
Serve = Callable[[Callable[[web.Request], Awaitable[web.StreamResponse]]], Awaitable[ReplicaRef]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    runners: list[web.AppRunner] = []

    async def start(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> ReplicaRef:
        app = web.Application()
        app.router.add_get("/{path:.*}", handler)
        runner = web.AppRunner(app)
        runners.append(runner)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        return ReplicaRef(ReplicaId("r"), PoolId("p"), f"http://127.0.0.1:{port}")

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def reader() -> AsyncIterator[HttpJournalReader]:
    client = UpstreamClient(UpstreamSettings(connect_timeout_s=LONG_S))
    await client.start()
    yield HttpJournalReader(client, "internal")
    await client.close()


async def test_pages_are_read_with_the_key_and_the_cursor(serve: Serve, reader: HttpJournalReader) -> None:
    seen = []

    async def engine(request: web.Request) -> web.Response:
        seen.append((request.path_qs, request.headers["authorization"]))
        foreign = {**RECORD, "request_id": None}
        return web.json_response({"records": [RECORD, foreign], "cursor": "a/b c", "complete": True})

    replica = await serve(engine)
    page = await reader.read(replica, None, 5)
    await reader.read(replica, page.cursor, 5)
    assert seen == [
        ("/internal/usage?limit=5", "Bearer internal"),
        ("/internal/usage?limit=5&after=a/b%20c", "Bearer internal"),
    ]
    (record,) = page.records
    assert (record.kind, record.request_id, record.attempt, record.overrun_tokens) == ("end", "req_1", 1, 0)
    assert (record.queue_ms, record.ttft_ms, record.e2e_ms) == (0, 13, 100)
    assert record.at.isoformat() == "2025-11-29T12:00:00.123000+00:00"
    assert page.is_complete


async def test_status_names_the_requests_in_flight(serve: Serve, reader: HttpJournalReader) -> None:
    async def engine(request: web.Request) -> web.Response:
        return web.json_response({"epoch": "e7", "state": "ready", "request_ids": ["req_1", "req_2"]})

    status = await reader.status(await serve(engine))
    assert (status.epoch, status.request_ids, status.is_draining) == ("e7", {"req_1", "req_2"}, False)


async def test_status_tells_a_replica_that_drains(serve: Serve, reader: HttpJournalReader) -> None:
    async def engine(request: web.Request) -> web.Response:
        return web.json_response({"epoch": None, "state": "draining", "request_ids": []})

    status = await reader.status(await serve(engine))
    assert (status.epoch, status.is_draining) == ("", True)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (web.Response(status=404), NoJournal),
        (web.Response(status=503), ReplicaUnreachable),
        (web.Response(text="not json"), ReplicaUnreachable),
        (web.Response(text='{"records": 1}'), ReplicaUnreachable),
    ],
)
async def test_other_answers_have_a_name(
    serve: Serve, reader: HttpJournalReader, answer: web.Response, error: type[Exception]
) -> None:
    async def engine(request: web.Request) -> web.Response:
        return web.Response(status=answer.status, body=answer.body)

    with pytest.raises(error):
        await reader.read(await serve(engine), None, 5)


async def test_nobody_there_is_unreachable(reader: HttpJournalReader) -> None:
    for url in (None, "http://127.0.0.1:1"):
        with pytest.raises(ReplicaUnreachable):
            await reader.status(ReplicaRef(ReplicaId("r"), PoolId("p"), url))
