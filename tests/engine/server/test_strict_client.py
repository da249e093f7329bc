"""Every endpoint and every kind of answer, read by the `openai` package's own types in strict mode.

In strict mode the package raises for a field of a wrong type instead of passing it on. One of its types is stricter
than OpenAI's own server: the chunks of a completion's stream have no finish reason before the last; for those its
type is used with that one field made optional.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import openai
import orjson
import pytest
from openai.types import Completion
from openai.types.completion_choice import Logprobs
from pydantic import BaseModel, ConfigDict

from tests.engine.server.conftest import API_KEY, MODEL, Server
from tests.fakes.core import Script

USER: list[Any] = [{"role": "user", "content": "The sea"}]
TEXT = "Grüße, 世界 🙂!"
CHAT_FIELDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "n": {"n": 2},
    "logprobs": {"logprobs": True},
    "alternatives": {"logprobs": True, "top_logprobs": 3, "n": 2},
    "ids": {"extra_body": {"return_token_ids": True}},
    "echo": {"messages": [*USER, {"role": "assistant", "content": "is"}], "extra_body": {"echo": True}},
    "as ids": {"logprobs": True, "top_logprobs": 1, "extra_body": {"return_tokens_as_token_ids": True}},
    "cut": {"max_completion_tokens": 2},
    "stopped": {"stop": ["ü"]},
    "stop token": {"extra_body": {"stop_token_ids": [4]}},
}
COMPLETION_FIELDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "prompts": {"prompt": ["a", "b"], "n": 2},
    "ids": {"prompt": [5, 6], "extra_body": {"return_token_ids": True}},
    "logprobs": {"logprobs": 2},
    "chosen only": {"logprobs": 0},
    "echo": {"echo": True},
    "cut": {"max_tokens": 2},
    "stopped": {"stop": "ü"},
}


class ChunkChoice(BaseModel):
    """`openai.types.CompletionChoice`, of a chunk."""

    model_config = ConfigDict(strict=True)
    finish_reason: Literal["stop", "length", "content_filter"] | None
    index: int
    text: str
    logprobs: Logprobs | None


class Chunk(Completion):
    choices: list[ChunkChoice]  # type: ignore[assignment]  # the one difference


def script(server: Server, count: int = 8) -> None:
    tokens = tuple(server.services.text.tokenizer.encode(TEXT, add_special_tokens=False))
    server.core.script(*[Script(tokens, cached_tokens=1)] * count)


@pytest.mark.parametrize("name", CHAT_FIELDS)
async def test_chat(server: Server, name: str) -> None:
    script(server)
    fields = {"model": MODEL, "messages": USER, **CHAT_FIELDS[name]}
    client = server.client()
    whole = await client.chat.completions.create(**fields)
    stream = await client.chat.completions.create(
        **fields, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    for choice in whole.choices:
        mine = [c for chunk in chunks for c in chunk.choices if c.index == choice.index]
        assert "".join(part.delta.content or "" for part in mine) == choice.message.content
        assert [part.finish_reason for part in mine if part.finish_reason] == [choice.finish_reason]
        assert [part.delta.role for part in mine if part.delta.role] == ["assistant"]
        streamed = [entry for part in mine if part.logprobs for entry in part.logprobs.content or []]
        assert streamed == ((choice.logprobs.content if choice.logprobs else None) or [])
    assert chunks[-1].usage == whole.usage
    assert whole.usage is not None


@pytest.mark.parametrize("name", COMPLETION_FIELDS)
async def test_completions(server: Server, name: str) -> None:
    script(server)
    fields = {"model": MODEL, "prompt": "The sea", **COMPLETION_FIELDS[name]}
    whole = await server.client().completions.create(**fields)
    body = {key: value for key, value in fields.items() if key != "extra_body"} | fields.get("extra_body", {})
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    async with server.session(API_KEY) as session, session.post("/v1/completions", json=body) as answer:
        events = (await answer.text()).strip().split("\n\n")
    assert events.pop() == "data: [DONE]"
    chunks = [Chunk.model_validate(orjson.loads(event.removeprefix("data: "))) for event in events]
    for choice in whole.choices:
        mine = [c for chunk in chunks for c in chunk.choices if c.index == choice.index]
        assert "".join(part.text for part in mine) == choice.text
        assert [part.finish_reason for part in mine if part.finish_reason] == [choice.finish_reason]
        tokens = [token for part in mine if part.logprobs for token in part.logprobs.tokens or []]
        assert tokens == ((choice.logprobs.tokens if choice.logprobs else None) or [])
    assert chunks[-1].usage == whole.usage
    assert whole.usage is not None


async def test_models(server: Server) -> None:
    client = server.client()
    listed = [model async for model in client.models.list()]
    assert [await client.models.retrieve(model.id) for model in listed] == listed


async def test_errors_have_their_types(server: Server) -> None:
    client, stranger = server.client(), server.client("wrong")
    ask: dict[str, Any] = {"model": MODEL, "messages": USER}
    with pytest.raises(openai.BadRequestError) as bad:
        await client.chat.completions.create(**ask, temperature=9)
    with pytest.raises(openai.AuthenticationError) as unknown:
        await stranger.chat.completions.create(**ask)
    with pytest.raises(openai.NotFoundError) as missing:
        await client.chat.completions.create(**ask | {"model": "other"})
    for caught, code, param in (
        (bad, "invalid_value", "temperature"),
        (unknown, "invalid_api_key", None),
        (missing, "model_not_found", "model"),
    ):
        assert (caught.value.code, caught.value.param, caught.value.type) == (
            code,
            param,
            "invalid_request_error",
        )
        assert caught.value.request_id


async def test_an_error_in_a_stream_is_raised(server: Server) -> None:
    tokens = tuple(server.services.text.tokenizer.encode(TEXT, add_special_tokens=False))
    server.core.script(Script(tokens, finish="error", error_code="engine_error", error_message="it broke"))
    # One step first: a busy machine would see the error before there is a stream to put it into.
    server.core.hold()
    ask = server.client().chat.completions.create(model=MODEL, messages=USER, stream=True)
    asking = asyncio.create_task(ask)
    await server.core_until(lambda: server.core.num_live == 1)
    server.core.release()
    stream = await asking
    server.core.release(50)
    said: list[str] = []

    async def read() -> None:
        async for chunk in stream:
            said.append(chunk.choices[0].delta.content or "")

    with pytest.raises(openai.APIError, match="it broke") as caught:
        await read()
    assert "".join(said) == TEXT
    assert caught.value.code == "engine_error"
