"""Real answers of every route, whole and streamed, are what the document says: every key, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.server.openapi.answers import answers
from engine.server.services import Phase
from tests.engine.server.answer_template import TEMPLATE
from tests.engine.server.conftest import MODEL, Server, running_server
from tests.engine.server.openapi.described import Described
from tests.engine.server.resume_cases import CHAT, COMPLETIONS, cases
from tests.engine.server.streams import parse
from tests.engine.server.test_resume import resume_body
from tests.fakes.core import Script
from tests.models import write_tiny_llama

USER = [{"role": "user", "content": "The lamps"}]
F: dict[str, Any] = {"type": "function", "function": {"name": "f"}}
MORE: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"messages": USER, "max_tokens": 3, "prompt_logprobs": 2, "return_token_ids": True}),
    (CHAT, {"messages": USER, "max_tokens": 3, "stop": ["e", "a", "t"], "ignore_eos": True}),
    (CHAT, {"messages": USER, "max_tokens": 90, "n": 8, "seed": 1, "tools": [F], "tool_choice": F}),
    (COMPLETIONS, {"prompt": ["a", "b"], "max_tokens": 0, "echo": True, "logprobs": 1, "prompt_logprobs": 1}),
    (COMPLETIONS, {"prompt": "a", "max_tokens": 3, "return_token_ids": True, "echo": True}),
]
"""Beside `resume_cases`, which are streams."""
GENERATED = (
    *("ChatCompletion", "ChatCompletionChunk", "Completion", "CompletionChunk", "Usage"),
    *("ChatLogprobs", "CompletionLogprobs", "PromptLogprobs"),
)
GETS = ("/v1/models", "/health", "/ready", "/metrics", "/version", "/load", "/openapi.json")
INTERNAL_GETS = ("/internal/status", "/internal/usage")
POSTS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/embeddings", {"model": MODEL, "input": ["a", "b"]}),
    ("/v1/embeddings", {"model": MODEL, "input": [5, 6], "encoding_format": "base64", "dimensions": 4}),
    ("/tokenize", {"prompt": "The lamps", "return_token_strs": True}),
    ("/tokenize", {"messages": USER}),
    ("/detokenize", {"tokens": [70, 71]}),
    ("/internal/abort", {"request_id": "nobody"}),
]


@pytest.fixture(scope="module")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_tiny_llama(tmp_path_factory.mktemp("described") / "llama")
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


@pytest.fixture
async def real(tiny_llama: Path, tmp_path: Path) -> AsyncIterator[Server]:
    flags = {"reasoning_parser": "qwen3", "tool_call_parser": "hermes"}
    async with running_server(tiny_llama, tmp_path / "journal", real_core=True, **flags) as server:
        yield server


class Asker:
    def __init__(self, server: Server) -> None:
        self.described = Described(closed=True)
        self.wrong: list[Any] = []
        self._server = server

    async def ask(
        self, method: str, path: str, body: Any = None, *, at: str = "", status: int = 200, **request: Any
    ) -> bytes:
        """`at`: the path as the document writes it, where that is another."""
        async with (
            self._server.session(request.pop("key", "internal-test")) as session,
            session.request(method, path, **({} if body is None else {"json": body}), **request) as answer,
        ):
            raw = await answer.read()
            kind = answer.headers["content-type"]
            found = self.described.faults_of_answer(method, at or path, answer.status, kind, raw)
            if found or answer.status != status:
                self.wrong.append((path, body, answer.status, found or raw[:300]))
            return raw


async def test_generation(real: Server) -> None:
    """Every kind of request that `resume_cases` knows, whole or streamed, a few both ways, and one that goes on."""
    asker = Asker(real)
    pages = asyncio.Semaphore(12)

    async def ask(path: str, body: dict[str, Any], stream: bool) -> None:
        options = {} if stream else {"stream_options": None}
        async with pages:
            await asker.ask("POST", path, {"model": MODEL, **body, "stream": stream, **options})

    asked = [(path, body, number % 2 == 0) for number, (_, path, body) in enumerate(cases())]
    asked += [(path, body, False) for path, body in MORE]
    asked += [(path, body, True) for path, body in MORE if "prompt_logprobs" not in body]
    await asyncio.gather(*(ask(*each) for each in asked))
    body = {"model": MODEL, "messages": USER, "max_tokens": 9, "stream": True, "seed": 3}
    stream = await asker.ask("POST", CHAT, body, headers={"x-emit-token-ids": "1"})
    await asker.ask("POST", "/internal/resume", resume_body(parse(stream)[:4], body))
    assert asker.wrong == []
    described = {key for name in GENERATED for key in _keys(answers()[name])}
    assert described - asker.described.seen == set(), "described, and in no answer"


async def test_every_other_route(real: Server) -> None:
    asker = Asker(real)
    for path in GETS:
        await asker.ask("GET", path)
    await asker.ask("GET", f"/v1/models/{MODEL}", at="/v1/models/{model}")
    for path, body in POSTS:
        await asker.ask("POST", path, body)
    await asker.ask("POST", COMPLETIONS, {"model": MODEL, "prompt": "a", "max_tokens": 1})
    for path in INTERNAL_GETS:
        await asker.ask("GET", path)
    await asker.ask("POST", "/internal/drain", status=202)
    assert asker.wrong == []
    asked = {*GETS, *INTERNAL_GETS, *(path for path, _ in POSTS), CHAT, COMPLETIONS}
    asked |= {"/v1/models/{model}", "/internal/drain", "/internal/resume"}
    assert asked == asker.described.document["paths"].keys(), "a new route is asked here too"


async def test_what_is_refused(server: Server) -> None:
    """Each status that the document knows, as OpenAI words errors."""
    asker = Asker(server)
    body: dict[str, Any] = {"model": MODEL, "prompt": "a"}
    await asker.ask("POST", COMPLETIONS, body | {"n": 0}, status=400)
    await asker.ask("POST", COMPLETIONS, body, key="wrong", status=401)
    await asker.ask("POST", COMPLETIONS, body | {"model": "other"}, status=404)
    await asker.ask("GET", "/v1/models/other", at="/v1/models/{model}", status=404)
    await asker.ask("POST", COMPLETIONS, data=b"{}", headers={"content-encoding": "gzip"}, status=415)
    server.core.script(Script((5,), finish="error", error_code="engine_error"))
    await asker.ask("POST", COMPLETIONS, body, status=500)
    server.services.phase = Phase.CLOSED
    await asker.ask("POST", COMPLETIONS, body, status=503)
    await asker.ask("GET", "/ready", status=503)
    assert asker.wrong == []


def _keys(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [key for inner in schema for key in _keys(inner)]
    if not isinstance(schema, dict):
        return []
    own = list(schema["properties"]) if isinstance(schema.get("properties"), dict) else []
    return own + [key for inner in schema.values() for key in _keys(inner)]
