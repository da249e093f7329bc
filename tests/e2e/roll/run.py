"""The rolls: a pool of `tollway up` grows, streams run without a pause, and its specification changes under them.

Every stream asks for a fixed number of tokens, so that one that was cut is known by its length. Afterwards each has to
have one usage event of just as many tokens, and no journalled attempt may be left that the ledger has not.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from gateway.local.up import SERVED_MODEL
from tests.e2e.conftest import Stack, until

__all__ = ["UNLIMITED", "Rolls", "Stream", "wrong"]

UNLIMITED = {
    "TOLLWAY_LIMITS__REQUESTS_PER_MINUTE": "0",
    "TOLLWAY_LIMITS__TOKENS_PER_MINUTE": "0",
    "TOLLWAY_LIMITS__CONCURRENT_REQUESTS": "0",
}
TOKENS = 48
ROLL_S = 900.0
STREAM_S = 300.0


@dataclass
class Stream:
    """One request as its caller saw it."""

    status: int = 0
    request_id: str = ""
    tokens: int = 0
    is_whole: bool = False
    """It came to `[DONE]`."""
    ttft_s: float = 0.0
    problem: str = ""

    @property
    def is_right(self) -> bool:
        return self.status == 200 and self.is_whole and self.tokens == TOKENS and not self.problem


@dataclass
class Rolls:
    stack: Stack
    callers: int
    streams: list[Stream] = field(default_factory=list)
    pool: dict[str, Any] = field(default_factory=dict)
    """As the admin API last showed it."""

    async def grow(self, replicas: int) -> None:
        [pool] = (await self._admin("GET", "/pools"))["data"]
        self.pool = pool
        await self._admin(
            "PATCH", f"/pools/{pool['id']}", {"min_replicas": replicas, "max_replicas": replicas}
        )
        await until(lambda: self._settled(replicas, pool["generation"]), ROLL_S)

    async def calm(self, seconds: float) -> list[Stream]:
        return await self._under_load(lambda: asyncio.sleep(seconds))

    async def roll(self) -> list[Stream]:
        """A flag changes that changes no answer. All replicas have to be new ones in the end, and the old ones gone."""
        spec, generation = self.pool["spec"], self.pool["generation"] + 1
        flags = spec["flags"] | {"drain-timeout-s": spec["flags"]["drain-timeout-s"] + 1}
        count = spec.get("min_replicas", 1)  # a default is not shown

        async def change() -> None:
            path = f"/pools/{self.pool['id']}"
            changed = await self._admin("PATCH", path, {"spec": spec | {"flags": flags}})
            assert changed["generation"] == generation
            await until(lambda: self._settled(count, generation), ROLL_S)

        return await self._under_load(change)

    async def unsettled(self) -> list[str]:
        """What the ledger has otherwise than the callers; waits until nothing is under way."""
        unmatched = "SELECT count(*) AS n FROM journal_attempt WHERE matched_at IS NULL"
        holds = "SELECT count(*) AS n FROM hold"

        async def quiet() -> bool:
            return all([(await self.stack.rows(query))[0]["n"] == 0 for query in (holds, unmatched)])

        await until(quiet)
        rows = await self.stack.rows(
            "SELECT request_id, sum(completion_tokens)::int AS tokens, count(*) AS n FROM usage_event GROUP BY 1"
        )
        events = {row["request_id"]: (row["n"], row["tokens"]) for row in rows}
        return [
            f"{stream.request_id}: {stream.tokens} tokens came, the ledger has {events.get(stream.request_id)}"
            for stream in self.streams
            if events.get(stream.request_id) != (1, stream.tokens)
        ]

    async def _settled(self, replicas: int, generation: int) -> bool:
        self.pool = await self._admin("GET", f"/pools/{self.pool['id']}")
        states = [(one["state"], one["generation"]) for one in self.pool["replicas"]]
        phases = {node["phase"] for node in self.pool["nodes"]}
        return states == [("ready", generation)] * replicas and phases == {"settled"}

    async def _under_load(self, meanwhile: Callable[[], Awaitable[None]]) -> list[Stream]:
        stopping, first = asyncio.Event(), len(self.streams)

        async def caller(number: int) -> None:
            async with aiohttp.ClientSession() as client:
                while not stopping.is_set():
                    await self._stream(client, number)

        load = asyncio.gather(*(caller(number) for number in range(self.callers)))
        try:
            await meanwhile()
        finally:
            stopping.set()
            await load
        return self.streams[first:]

    async def _stream(self, client: aiohttp.ClientSession, number: int) -> None:
        stream = Stream()
        self.streams.append(stream)
        body = {
            "model": SERVED_MODEL, "prompt": f"{number} {len(self.streams)} and so on", "max_tokens": TOKENS,
            "stream": True, "ignore_eos": True, "return_token_ids": True,
        }  # fmt: skip
        headers = {"authorization": f"Bearer {self.stack.env['OPENAI_API_KEY']}"}
        url = f"{self.stack.env['OPENAI_BASE_URL']}/completions"
        began = time.monotonic()
        try:
            async with asyncio.timeout(STREAM_S), client.post(url, json=body, headers=headers) as answer:
                stream.status = answer.status
                stream.request_id = answer.headers.get("x-request-id", "")
                if answer.status != 200:
                    stream.problem = await answer.text()
                    return
                async for line in answer.content:
                    self._read(stream, line.decode().strip().removeprefix("data: "), began)
        except (aiohttp.ClientError, OSError) as error:  # a time-out is one
            stream.problem = repr(error)

    @staticmethod
    def _read(stream: Stream, data: str, began: float) -> None:
        if data == "[DONE]":
            stream.is_whole = True
        if not data.startswith("{"):
            return
        event = json.loads(data)
        if "error" in event:
            stream.problem = data
        for choice in event.get("choices", ()):
            stream.tokens += len(choice.get("token_ids") or ())
        if stream.tokens and not stream.ttft_s:
            stream.ttft_s = time.monotonic() - began

    async def _admin(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"authorization": f"Bearer {self.stack.env['OPENAI_ADMIN_KEY']}"}
        url = f"{self.stack.env['OPENAI_BASE_URL']}/organization{path}"
        async with (
            aiohttp.ClientSession(headers=headers) as client,
            client.request(method, url, json=body) as answer,
        ):
            assert answer.status == 200, await answer.text()
            return await answer.json()


def wrong(streams: list[Stream]) -> list[str]:
    return [str(stream) for stream in streams if not stream.is_right]
