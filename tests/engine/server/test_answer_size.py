"""What the request alone says of the size of its answer: refused beyond the bounds, or ended at them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import openai
import pytest

from engine.server.admission import make_job
from engine.server.answer_size import MAX_ANSWER_LOGPROBS, MAX_ANSWER_TOKENS
from engine.server.caller import Caller
from engine.server.control import CoreDown
from engine.server.errors import ApiError
from engine.server.protocol import parse_chat, parse_completion
from tests.engine.server.conftest import MODEL, Server
from tests.fakes.core import ready

LONG = 1 << 22
"""Tokens of a context in which everything fits."""
CHAT = {"messages": [{"role": "user", "content": "x"}]}
ALL, LOGPROBS = MAX_ANSWER_TOKENS, MAX_ANSWER_LOGPROBS


async def longest(
    server: Server, fields: Mapping[str, Any], num_prompts: int = 1, prompt: int = 2, **caller: Any
) -> int:
    """`max_tokens` of the sequences, as the core is told it."""
    parse = parse_chat if "messages" in fields else parse_completion
    request = parse(json.dumps({"model": MODEL, "prompt": "x", **fields}).encode())
    job = await make_job(
        server.services,
        ready(max_model_len=LONG),
        request,
        [[5] * prompt] * num_prompts,
        Caller(request_id="r", internal=True, **caller),
        "id",
    )
    (found,) = {sequence.sampling.max_tokens for sequence in job.requests}
    return found


@pytest.mark.parametrize(
    ("fields", "num_prompts", "most", "param"),
    [
        ({}, 1, ALL, "max_tokens"),
        ({"n": 128}, 2, ALL // 256, "max_tokens"),
        ({"echo": True}, 1, ALL - 2, "max_tokens"),
        ({"return_token_ids": True, "n": 2}, 1, ALL // 2 - 2, "max_tokens"),
        ({"logprobs": 0}, 1, LOGPROBS // 2, "logprobs"),
        ({"logprobs": 20, "n": 4}, 3, LOGPROBS // (12 * 22), "logprobs"),
        (CHAT, 1, ALL, "max_tokens"),
        ({**CHAT, "return_token_ids": True}, 1, ALL, "max_tokens"),
        ({**CHAT, "logprobs": True, "top_logprobs": 20}, 1, LOGPROBS // 22, "logprobs"),
    ],
)
async def test_a_whole_answer_has_a_bound(
    server: Server, fields: dict[str, Any], num_prompts: int, most: int, param: str
) -> None:
    assert await longest(server, {**fields, "max_tokens": most}, num_prompts) == most
    with pytest.raises(ApiError, match="set 'stream'") as caught:
        await longest(server, {**fields, "max_tokens": most + 1}, num_prompts)
    assert (caught.value.status, caught.value.param) == (400, param)
    if "messages" in fields:  # nobody asked for a length
        assert await longest(server, fields) == most
    capped = {**fields, "max_tokens": most + 1}
    assert await longest(server, capped, num_prompts, max_output_tokens=most) == most
    if "echo" not in fields:
        assert await longest(server, {**capped, "stream": True}, num_prompts) == most + 1


async def test_what_is_not_asked_for_ends_where_the_context_does_in_a_stream(server: Server) -> None:
    fields = {**CHAT, "stream": True, "logprobs": True, "top_logprobs": 20}
    assert await longest(server, fields, prompt=LONG // 4) == LONG - LONG // 4


@pytest.mark.parametrize("fields", [{"echo": True}, {"return_token_ids": True}, {**CHAT, "echo": True}])
@pytest.mark.parametrize("stream", [True, False])
async def test_repeated_prompts_are_bounded_streamed_or_not(
    server: Server, fields: dict[str, Any], stream: bool
) -> None:
    """The beginnings of all answers are written at once."""
    body = {**fields, "n": 128, "max_tokens": 1, "stream": stream}
    assert await longest(server, body, prompt=ALL // 128 - 1) == 1
    with pytest.raises(ApiError, match="tokens of prompts in one answer") as caught:
        await longest(server, body, prompt=ALL // 128)
    assert (caught.value.status, caught.value.param) == (400, next(n for n in fields if n != "messages"))
    assert await longest(server, {**body, "n": 127}, prompt=ALL // 128) == 1


async def test_a_caller_is_told_before_anything_is_computed(server: Server) -> None:
    server.tell(CoreDown("for one with a longer context"))
    await server.until(lambda: server.services.bridge.ready is None)
    await server.new_core(ready("epoch-2", max_model_len=LONG))
    create = server.client().completions.create
    with pytest.raises(openai.BadRequestError, match="log-probabilities in one answer") as caught:
        await create(model=MODEL, prompt="a", n=128, logprobs=5, max_tokens=1000)
    assert caught.value.param == "logprobs"
    assert not server.core.seen
