"""`GET /live`: a stream of hints (server-sent events) for pages that stay open.

An event says which topics have changed, and holds no data: the page asks again for what it shows. Each stream tells what
its caller may read, ends when the session ends, and after a minute by itself; browsers come back with `Last-Event-ID` and
are told what they have missed, or `reset` if that is not known.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import orjson
from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from gateway.db import DATABASE_ERRORS
from gateway.errors import ClientError, GatewayError, ServiceUnavailable
from gateway.http.admin.access import Caller
from gateway.http.admin.common import AdminParts, caller_of
from gateway.live.feed import INTERVAL_S, Change, LiveFeed, Topic

__all__ = ["STREAMS_MAX", "LiveRoutes"]

STREAM_S = 60.0
"""Short, so that a gateway that drains does not wait for pages."""
COMMENT_S = 15.0
STREAMS_MAX = 200
STREAMS_OF_ONE_MAX = 20
READS: dict[Topic, str] = {
    "usage": "GET /requests",
    "alerts": "GET /alerts",
    "audit": "GET /audit_logs",
    "slo": "GET /slo/board",
    "pools": "GET /pools",
}
"""Topic → the route that shows it: who may not read that is not told that it has changed."""
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


class LiveRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._feed = LiveFeed(parts.database, parts.clock, parts.ids.new("live"))
        self._open: dict[str, int] = {}

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/live", self.stream, methods=["GET"], include_in_schema=False)

    async def stream(self, request: Request) -> StreamingResponse:
        caller = caller_of(request)
        who = caller.user_id or caller.actor.id
        if sum(self._open.values()) >= STREAMS_MAX or self._open.get(who, 0) >= STREAMS_OF_ONE_MAX:
            raise ServiceUnavailable("Too many pages are open. Please retry in a moment.", 5.0)
        await self._feed.look()
        last = request.headers.get("last-event-id", "")
        body = self._counted(who, self._events(caller, last))
        return StreamingResponse(body, media_type="text/event-stream", headers=_HEADERS)

    async def _counted(self, who: str, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self._open[who] = self._open.get(who, 0) + 1
        try:
            async for event in events:
                yield event
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]

    async def _events(self, caller: Caller, last: str) -> AsyncIterator[bytes]:
        clock, feed = self._p.clock, self._feed
        run, _, text = last.partition(".")
        known = run == feed.run and text.isdecimal() and len(text) < 16
        place = int(text) if known else feed.newest
        yield b"retry: 2000\n\n"
        if last and (not known or feed.since(place) is None):
            place = feed.newest
            yield self._event("reset", [], place)
        began = spoken = clock.monotonic()
        while clock.monotonic() - began < STREAM_S:
            try:
                caller = await self._again(caller)
                await feed.look()
            except ClientError:
                yield self._event("end", [], place)
                return
            except (GatewayError, *DATABASE_ERRORS):
                return  # the browser comes back by itself
            changes = feed.since(place)
            place = feed.newest
            topics = [*READS] if changes is None else sorted(set(_told(changes, caller)))
            if topics:
                spoken = clock.monotonic()
                yield self._event("reset" if changes is None else "change", topics, place)
            elif clock.monotonic() - spoken >= COMMENT_S:
                spoken = clock.monotonic()
                yield b": still here\n\n"
            await asyncio.sleep(INTERVAL_S)

    async def _again(self, caller: Caller) -> Caller:
        """As the caller is now: a session may have ended, a role may have been taken away. A key's stream is short."""
        if caller.standing is None:
            return caller
        standing = await self._p.directory.standing(caller.standing.session.id, caller.standing.user.id)
        return Caller.person(standing, caller.actor)

    def _event(self, kind: str, topics: Iterable[str], place: int) -> bytes:
        data = orjson.dumps({"topics": list(topics), "at": int(self._p.clock.now().timestamp())})
        return f"id: {self._feed.run}.{place}\nevent: {kind}\ndata: ".encode() + data + b"\n\n"


def _told(changes: Iterable[Change], caller: Caller) -> Iterable[str]:
    may, own = set(caller.may()), caller.tenants
    for change in changes:
        concerns = own is None or change.tenants is None or bool(own & change.tenants)
        if concerns and READS[change.topic] in may:
            yield change.topic
