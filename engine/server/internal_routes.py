"""/internal: what only the gateway and the pool may ask (status, usage journal, abort, drain, resume)."""

from __future__ import annotations

import asyncio
import os

import msgspec
import orjson

from engine.server.acknowledged import acknowledge
from engine.server.app import Access, Route
from engine.server.caller import Caller
from engine.server.errors import invalid
from engine.server.exchange import Exchange
from engine.server.fields import Field, read_fields, text
from engine.server.journal_reader import CursorError, Page, read_page
from engine.server.json_body import parse_json
from engine.server.resume import resume
from engine.server.services import Services

LIMIT_DEFAULT = 1_000
LIMIT_MAX = 1_000
"""Records on a page of the journal. Larger ones, several at once, would leave their size with the allocator."""
_USAGE_QUERY = {"after", "limit", "request_id"}
ABORT_FIELDS = {"request_id": Field(text(200), required=True)}


async def status(services: Services, exchange: Exchange, caller: Caller) -> None:
    bridge = services.bridge
    ids = {*services.gateway_ids(), *await services.peers.gateway_ids()}
    document = {
        "epoch": bridge.ready.epoch if bridge.ready else None,
        "state": services.state,
        "model": services.model_path,
        "served_model_names": list(services.served_model_names),
        "max_model_len": bridge.ready.max_model_len if bridge.ready else None,
        "pid": os.getpid(),
        "core_pid": bridge.core_pid,
        "running": bridge.load.num_running,
        "waiting": bridge.load.num_waiting,
        "kv_usage": bridge.load.kv_usage,
        "request_ids": sorted(ids),
    }
    await exchange.reply(200, orjson.dumps(document))


async def usage(services: Services, exchange: Exchange, caller: Caller) -> None:
    query = exchange.query()
    for name in query.keys() - _USAGE_QUERY:  # a misspelt cursor would read everything again, for ever
        raise invalid(f"Unknown parameter: {name[:40]!r}.", name[:40])
    limit = query.get("limit", str(LIMIT_DEFAULT))
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 9 and 1 <= int(limit) <= LIMIT_MAX):
        raise invalid(f"'limit' must be a whole number between 1 and {LIMIT_MAX}.", "limit")
    wanted = query.get("request_id")
    if wanted == "":  # no request is called so, and all records are not what was asked for
        raise invalid("'request_id' is empty: name a request, or leave it out.", "request_id")
    async with services.journal_pages:
        page = await _page(services, query.get("after", ""), int(limit), wanted)
        document = {"records": page.records, "cursor": page.cursor, "complete": page.complete}
        # In a thread, and straight from the records: a full page takes long to write.
        body = await asyncio.to_thread(msgspec.json.encode, document)
    await exchange.reply(200, body)


async def _page(services: Services, after: str, limit: int, wanted: str | None) -> Page:
    directory = services.journal_dir
    if directory is None:
        return Page([], "", complete=True)
    try:
        page = await asyncio.to_thread(read_page, directory, after, limit, wanted)
        if after and wanted is None:
            await asyncio.to_thread(acknowledge, directory, after)
    except CursorError as error:
        raise invalid(f"Invalid value for 'after': {error}.", "after") from error
    return page


async def abort(services: Services, exchange: Exchange, caller: Caller) -> None:
    body = parse_json(await exchange.body())
    wanted = read_fields(body, ABORT_FIELDS)["request_id"]
    aborted = services.abort_gateway_request(wanted)
    aborted = await services.peers.abort(wanted) or aborted
    await exchange.reply(200, orjson.dumps({"aborted": aborted}))


async def drain(services: Services, exchange: Exchange, caller: Caller) -> None:
    services.request_drain()
    await exchange.reply(202, b"{}")


ROUTES = (
    Route("GET", "/internal/status", status, Access.INTERNAL),
    Route("GET", "/internal/usage", usage, Access.INTERNAL),
    Route("POST", "/internal/abort", abort, Access.INTERNAL),
    Route("POST", "/internal/drain", drain, Access.INTERNAL),
    Route("POST", "/internal/resume", resume, Access.INTERNAL),
)
