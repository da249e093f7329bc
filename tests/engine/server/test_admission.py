"""From a request to sequences: defaults of the checkpoint, salts, limits. (Refusals: test_openai_routes.)"""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.messages import AddRequest
from engine.server.admission import check_open, make_job
from engine.server.caller import Caller
from engine.server.errors import ApiError
from engine.server.protocol import parse_completion
from engine.server.services import Phase
from engine.text.assets import TextAssets
from tests.engine.server.conftest import MODEL, Server
from tests.fakes.core import ready


async def first(server: Server, caller: Caller | None = None, **fields: Any) -> AddRequest:
    request = parse_completion(json.dumps({"model": MODEL, "prompt": "x", **fields}).encode())
    caller = caller or Caller(request_id="r")
    job = await make_job(server.services, ready(), request, [[5, 6]], caller, "cmpl")
    return job.requests[0]


async def test_checkpoint_defaults_yield_to_the_caller(server: Server) -> None:
    text = server.services.text
    defaults = {"temperature": 0.6, "top_k": 40, "top_p": 0.9}
    server.services.text = TextAssets(text.tokenizer, text.chat_template, defaults)
    plain = (await first(server)).sampling
    assert (plain.temperature, plain.top_k, plain.top_p) == (0.6, 40, 0.9)
    own = (await first(server, temperature=0, top_k=0, top_p=1)).sampling
    assert (own.temperature, own.top_k, own.top_p) == (0, 0, 1)
    server.services.text = TextAssets(text.tokenizer, text.chat_template)
    assert (await first(server)).sampling.temperature == 1.0


async def test_salts_never_meet(server: Server) -> None:
    salts = {
        (
            await first(server, Caller(request_id="r", internal=True, cache_salt=outer), cache_salt=own)
        ).cache_salt
        for outer in (b"", b"a", b"ab")
        for own in ("", "a", "ab", "b")
    }
    assert len(salts) == 12


async def test_minimum_within_the_gateways_maximum(server: Server) -> None:
    caller = Caller(request_id="r", internal=True, max_output_tokens=3)
    sampling = (await first(server, caller, min_tokens=10, max_tokens=20)).sampling
    assert (sampling.min_tokens, sampling.max_tokens) == (3, 3)


async def test_what_min_tokens_leaves(server: Server) -> None:
    """The core would find nothing to choose, and a server error is not what the caller deserves."""
    for fields in (
        {"allowed_token_ids": [1]},
        {"allowed_token_ids": [1, 7], "stop_token_ids": [7]},
        {"allowed_token_ids": [7, 7], "stop_token_ids": [7], "ignore_eos": True},
    ):
        assert (await first(server, **fields)).sampling.allowed_token_ids
        with pytest.raises(ApiError) as caught:
            (await first(server, min_tokens=1, **fields))
        assert (caught.value.status, caught.value.param) == (400, "allowed_token_ids")
    assert await first(server, min_tokens=1, allowed_token_ids=[1], ignore_eos=True)
    assert await first(server, min_tokens=1, allowed_token_ids=[1, 7])


async def test_lists_of_allowed_tokens_are_bounded_together(server: Server) -> None:
    """n copies of the longest list once stopped the core for seconds, for everybody."""
    assert (await first(server, allowed_token_ids=[5, 6, 5])).sampling.allowed_token_ids == (5, 6)
    assert (await first(server, allowed_token_ids=[5] * (1 << 18), n=4)).sampling.allowed_token_ids == (5,)
    with pytest.raises(ApiError) as caught:
        (await first(server, allowed_token_ids=[5] * (1 << 18), n=5))
    assert (caught.value.status, caught.value.param) == (400, "allowed_token_ids")


async def test_tiny_temperatures_are_greedy(server: Server) -> None:
    """Their logits would leave fp32."""
    assert [(await first(server, temperature=t)).sampling.temperature for t in (1e-300, 1e-9, 1e-5)] == [
        0,
        0,
        1e-5,
    ]


async def test_order_of_refusals(server: Server) -> None:
    """A foreign model is 404 even while draining, so that a balancer learns nothing wrong."""
    other = parse_completion(b'{"model": "other", "prompt": "x"}')
    ours = parse_completion(b'{"model": "tiny", "prompt": "x"}')
    assert check_open(server.services, ours) == ready()
    server.services.phase = Phase.CLOSED
    for request, status in ((other, 404), (ours, 503)):
        with pytest.raises(ApiError) as caught:
            check_open(server.services, request)
        assert caught.value.status == status
