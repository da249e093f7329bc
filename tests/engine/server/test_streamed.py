"""A streamed answer is the whole answer in pieces, for requests of every kind and a model that computes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.server.answer_template import TEMPLATE
from tests.engine.server.conftest import MODEL, Server, running_server
from tests.engine.server.resume_cases import CHAT, Case, cases
from tests.models import write_tiny_llama


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[Server]:
    model = write_tiny_llama(tmp_path / "model")
    (model / "chat_template.jinja").write_text(TEMPLATE)
    flags = {"reasoning_parser": "qwen3", "tool_call_parser": "hermes", "batch_invariant": True}
    async with running_server(model, tmp_path / "journal", real_core=True, **flags) as server:
        yield server


async def test_streamed_equals_whole(real: Server) -> None:
    """Text, reasoning, calls, log-probabilities, ids, reasons and usage, to the bit. Of what both endpoints have, each
    shows a half."""
    some = cases()[::2]

    async def check(case: Case) -> str | None:
        name, path, body = case
        request = {"model": MODEL, **body, "stream": False}
        asked = {**request, "stream": True, "stream_options": {"include_usage": True}}
        whole, events = await asyncio.gather(ask(real, path, request), ask(real, path, asked))
        read = in_chat if path == CHAT else in_completion
        found = [read(choice) for choice in joined(events)]
        wanted = [read(choice) for choice in whole[0]["choices"]]
        if found != wanted or usage_of(events[-1]) != usage_of(whole[0]):
            return f"{name}:\n{found}\n{wanted}"
        return None

    differences = [each for each in await asyncio.gather(*map(check, some)) if each is not None]
    assert not differences, f"{len(differences)} of {len(some)} differ, the first: {differences[0]}"


async def ask(server: Server, path: str, body: dict[str, Any]) -> list[Any]:
    """The answer's documents: its events, or itself alone."""
    if not body["stream"]:
        body = {name: value for name, value in body.items() if name != "stream_options"}
    async with server.session() as session, session.post(path, json=body) as answer:
        text = await answer.text()
        assert answer.status == 200, text
    if not body["stream"]:
        return [json.loads(text)]
    *events, done = text.removesuffix("\n\n").split("\n\n")
    assert done == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events]


def joined(events: list[Any]) -> list[Any]:
    """The pieces of each choice put together, as whole answers have them."""
    choices: dict[int, Any] = {}
    for event in events:
        for piece in event["choices"]:
            index = piece["index"]
            choices[index] = add(choices.get(index), {**piece, "message": piece.pop("delta", None)})
    return [choices[index] for index in sorted(choices)]


def add(one: Any, other: Any) -> Any:
    """What two pieces are together: texts and lists go on, news of a call belong to the call of its index."""
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, dict):
        return {name: add(one.get(name), other.get(name)) for name in one | other}
    if isinstance(one, list) and other and isinstance(other[0], dict) and "function" in other[0]:
        calls = {call["index"]: call for call in one}
        for call in other:
            calls[call["index"]] = add(calls.get(call["index"]), call)
        return list(calls.values())
    return other if isinstance(one, int) else one + other


def in_chat(choice: Any) -> Any:
    message = choice["message"]
    calls = [
        (call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()
    ]
    said = message.get("content") or "", message.get("reasoning") or "", calls
    return said, *(choice.get(name) for name in ("logprobs", "token_ids", "finish_reason", "stop_reason"))


def in_completion(choice: Any) -> Any:
    names = ("text", "logprobs", "token_ids", "finish_reason", "stop_reason")
    return tuple(choice.get(name) for name in names)


def usage_of(document: Any) -> tuple[int, int]:
    """Without what depends on who came first."""
    return document["usage"]["prompt_tokens"], document["usage"]["completion_tokens"]
