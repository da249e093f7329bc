"""Servers of somebody else, as recorded: what they answer is billed, renamed and translated like our own engine's.

The recordings are made by `python -m tests.contract.record_peer`; a replayed server takes only what was recorded,
so a change of what the gateway sends shows here too.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

import openai
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.contract.record_peer import CASES, PEERS, Case
from tests.harness import SERVED, Gateway

PEER_NAMES = ("llama_cpp", "vllm")
WHOLE = ("chat", "chat_again", "chat_logprobs", "completion")
STREAMED = ("chat_stream", "chat_two_streamed", "completion_stream")
REFUSED = {
    "too_long": (400, "context_length_exceeded"),
    "too_long_stream": (400, "context_length_exceeded"),
    "bad_value": (400, None),
    "unknown_model": (500, None),
    "wrong_key": (500, None),
}
"""How the caller sees what the server refused: its own faults as 400, the operator's as a fault of ours."""
BY_NAME = {case.name: case for case in CASES}


class Peer:
    """One recorded server, in the place of a `FakeEngine`."""

    epoch = None

    def __init__(self, name: str) -> None:
        self.recorded: dict[str, Any] = json.loads((PEERS / f"{name}.json").read_text())
        self.model: str = self.recorded["model"]
        self.case = ""
        self.url = ""

    async def __aenter__(self) -> Peer:
        app = web.Application()
        app.router.add_post("/v1/{tail:.*}", self._answer)
        app.router.add_get("/metrics", self._metrics)
        self._server = TestServer(app)
        await self._server.start_server()
        self.url = str(self._server.make_url("")).rstrip("/")
        return self

    async def __aexit__(self, kind: type | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        await self._server.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        recorded = self.recorded["answers"][self.case]
        sent = recorded["sent"] | {"model": self.model}
        assert await request.json() == sent
        reply = web.StreamResponse(status=recorded["status"], headers=recorded["headers"])
        await reply.prepare(request)
        for piece in recorded["pieces"]:
            await reply.write(piece.encode())
        return reply

    async def _metrics(self, request: web.Request) -> web.Response:
        assert "authorization" not in request.headers, "the key of our engines is none of theirs"
        return web.Response(text="\n".join([*self.recorded["metrics"], ""]))

    def text(self, case: str) -> str:
        return "".join(self.recorded["answers"][case]["pieces"])

    def usage(self, case: str) -> dict[str, Any]:
        """The last one said, whole or streamed."""
        bodies = [
            line.removeprefix("data: ")
            for line in self.text(case).splitlines()
            if line.startswith(("{", "data: {"))
        ]
        found = [json.loads(body)["usage"] for body in bodies if json.loads(body).get("usage")]
        return dict(found[-1])


def _answered(name: str, case: str) -> bool:
    recorded = json.loads((PEERS / f"{name}.json").read_text())
    return bool(recorded["answers"][case]["status"] == 200)


@asynccontextmanager
async def _serving(gateway: Gateway, name: str) -> AsyncIterator[tuple[Peer, openai.AsyncOpenAI]]:
    async with Peer(name) as peer:
        tenant = await gateway.serve(peer, kind="external")  # type: ignore[arg-type]  # has what a pool needs
        yield peer, gateway.client(tenant)


async def _ask(client: openai.AsyncOpenAI, case: Case) -> Any:
    resource: Any = client.chat.completions if case.endpoint == "chat.completions" else client.completions
    return await resource.create(model=SERVED, **case.body)


def _texts(answer: Any) -> dict[int, str]:
    """Choice → its text, of whole answers and chunks of both kinds."""
    found: dict[int, str] = {}
    for choice in answer.choices:
        part = getattr(choice, "message", None) or getattr(choice, "delta", None)
        found[choice.index] = (part.content if part is not None else choice.text) or ""
    return found


def _assert_billed(event: dict[str, Any], usage: dict[str, Any]) -> None:
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    assert event["status"] == "ok"
    assert event["prompt_cached_tokens"] == cached
    assert event["prompt_uncached_tokens"] == usage["prompt_tokens"] - cached
    assert event["completion_tokens"] == usage["completion_tokens"] > 0


@pytest.mark.parametrize("name", PEER_NAMES)
async def test_whole_answers(gateway: Gateway, name: str) -> None:
    async with _serving(gateway, name) as (peer, client):
        for count, case in enumerate(WHOLE, 1):
            peer.case = case
            answer = await _ask(client, BY_NAME[case])
            assert answer.model == SERVED
            assert _texts(answer)[0]
            assert answer.usage.completion_tokens == peer.usage(case)["completion_tokens"]
            _assert_billed((await gateway.events(count))[-1], peer.usage(case))


@pytest.mark.parametrize("name", PEER_NAMES)
async def test_streams(gateway: Gateway, name: str) -> None:
    """Usage is asked for and billed, and not shown to a client that did not ask."""
    async with _serving(gateway, name) as (peer, client):
        answered = [case for case in STREAMED if _answered(name, case)]
        assert len(answered) >= 2
        for count, case in enumerate(answered, 1):
            peer.case = case
            chunks = [chunk async for chunk in await _ask(client, BY_NAME[case])]
            texts: dict[int, str] = {}
            for chunk in chunks:
                assert chunk.model == SERVED
                assert chunk.usage is None
                for index, text in _texts(chunk).items():
                    texts[index] = texts.get(index, "") + text
            assert len(texts) == BY_NAME[case].body.get("n", 1)
            assert all(texts.values())
            _assert_billed((await gateway.events(count))[-1], peer.usage(case))


@pytest.mark.parametrize(
    ("name", "case"), [(name, case) for name in PEER_NAMES for case in REFUSED if not _answered(name, case)]
)
async def test_refusals(gateway: Gateway, name: str, case: str) -> None:
    """Nothing is billed, and no caller learns the upstream's name for the model or that our key is wrong."""
    async with _serving(gateway, name) as (peer, client):
        peer.case = case
        with pytest.raises(openai.APIStatusError) as caught:
            await _ask(client, BY_NAME[case])
        assert (caught.value.status_code, caught.value.code) == REFUSED[case]
        assert set(caught.value.body) == {"message", "type", "param", "code"}  # type: ignore[arg-type]
        assert json.dumps(peer.model) not in caught.value.response.text
        assert "key" not in caught.value.response.text.lower()
        events = await gateway.events()
        assert [event["amount_nanousd"] for event in events if event["amount_nanousd"]] == []


async def test_a_malformed_message_reaches_no_server(gateway: Gateway) -> None:
    """Duty G39: llama.cpp answers 500 to a role that is no string, which would open its breaker for everybody."""
    async with _serving(gateway, "llama_cpp") as (peer, client):
        for _ in range(8):
            with pytest.raises(openai.BadRequestError) as caught:
                await client.chat.completions.create(model=SERVED, messages=[{"role": 5, "content": "x"}])  # type: ignore[misc,list-item]
            assert caught.value.param == "messages[0].role"
        peer.case = "chat"
        assert (await _ask(client, BY_NAME["chat"])).choices[0].message.content


@pytest.mark.parametrize("name", PEER_NAMES)
async def test_load_is_read_from_metrics(gateway: Gateway, name: str) -> None:
    async with _serving(gateway, name):
        await gateway.poll()
        [replica] = gateway.app.replicas.known
        assert replica.reported is not None
        assert (replica.reported.running, replica.reported.waiting, replica.epoch) == (0, 0, None)
