"""The body of a continuation, its bill, and what is refused. (Cut at every token of a real model: test_resume_cuts.)"""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.server.journal import Record
from engine.server.journal_reader import read_page
from tests.engine.server.conftest import API_KEY, MODEL, Server
from tests.engine.server.resume_cases import CHAT
from tests.engine.server.resuming import post, relayed, resume_body
from tests.engine.server.streams import Block, parse
from tests.fakes.core import Script


def records(server: Server) -> list[Record]:
    assert server.services.journal_dir is not None
    return read_page(server.services.journal_dir, "", 10_000).records


BODY: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "The lamps"}],
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": 9,
}


async def begun(server: Server, body: dict[str, Any] = BODY, cached_tokens: int = 0) -> list[Block]:
    """The blocks of a whole stream, for a test to cut."""
    server.core.script(Script(tuple(range(70, 79)), finish="length", cached_tokens=cached_tokens))
    return parse(await post(server, CHAT, body, x_gateway_request_id="gw-1", x_gateway_attempt="0"))


async def test_the_core_gets_the_answer_so_far(server: Server) -> None:
    blocks = await begun(server, {**BODY, "min_tokens": 7})
    first = server.core.seen[-1]
    await post(server, "/internal/resume", resume_body(blocks[:5], {**BODY, "min_tokens": 7}))
    sent = server.core.seen[-1]
    assert sent.output_token_ids == [70, 71, 72, 73]
    assert (sent.prompt_token_ids, sent.sampling) == (first.prompt_token_ids, first.sampling)
    assert sent.request_id != first.request_id


async def test_a_drawn_seed_is_gone_on_with(server: Server) -> None:
    blocks = await begun(server)
    await post(server, "/internal/resume", resume_body(blocks[:3], BODY))
    assert server.core.seen[-1].sampling.seed == server.core.seen[-2].sampling.seed


async def test_the_bill_is_one_requests(server: Server) -> None:
    """The rule of docs/engine-internal.md: P + (P' - P) + C', from the journal alone; and the caller's usage."""
    blocks = await begun(server, cached_tokens=5)
    server.core.script(Script(tuple(range(74, 79)), finish="length", cached_tokens=16))
    body = resume_body(blocks[:5], BODY, resumed_from=0)
    rest = parse(
        await post(server, "/internal/resume", body, x_gateway_request_id="gw-1", x_gateway_attempt="1")
    )
    first, second = (record for record in records(server) if record.kind == "end")
    assert (first.attempt, second.attempt, second.resumed_from, first.resumed_from) == (0, 1, 0, None)
    assert None not in (first.prompt_tokens, second.prompt_tokens, second.completion_tokens)
    prompt = first.prompt_tokens or 0
    replayed = (second.prompt_tokens or 0) - prompt
    assert (replayed, second.completion_tokens, second.cached_tokens) == (4, 5, 16)
    usage = json.loads(rest[-2].data)["usage"]
    assert usage == {
        "prompt_tokens": prompt,
        "completion_tokens": replayed + 5,
        "total_tokens": prompt + 9,
        "prompt_tokens_details": {"cached_tokens": 5},
    }
    assert usage == json.loads(blocks[-2].data)["usage"]


async def test_an_answer_at_its_end_needs_no_core(server: Server) -> None:
    """Whether the end was seen or only the last token."""
    blocks = await begun(server)
    num_asked = len(server.core.seen)
    seen = next(number for number, block in enumerate(blocks) if block.ended)
    for cut in (seen, seen + 1):
        rest = parse(await post(server, "/internal/resume", resume_body(blocks[:cut], BODY)))
        assert relayed(blocks[:cut] + rest) == relayed(blocks)
    assert len(server.core.seen) == num_asked
    assert [record.completion_tokens for record in records(server) if record.kind == "end"] == [9, 0, 0]


async def test_a_continuation_can_be_continued(server: Server) -> None:
    blocks = await begun(server)
    server.core.script(
        Script(tuple(range(73, 79)), finish="length"), Script((75, 76, 77, 78), finish="length")
    )
    more = parse(await post(server, "/internal/resume", resume_body(blocks[:4], BODY)))
    joined = blocks[:4] + more[:2]
    last = parse(await post(server, "/internal/resume", resume_body(joined, BODY)))
    assert server.core.seen[-1].output_token_ids == [70, 71, 72, 73, 74]
    assert relayed(joined + last) == relayed(blocks)


async def test_failure_of_a_continuation_says_so(server: Server) -> None:
    blocks = await begun(server)
    server.core.script(Script((), finish="error", error_code="server_is_overloaded"))
    async with server.session() as session:
        body = resume_body(blocks[:4], BODY)
        async with session.post("/internal/resume", json=body) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (503, "server_is_overloaded")


async def test_however_deep_a_body_is_it_is_refused(server: Server) -> None:
    begun_ = json.dumps(resume_body((await begun(server))[:3], BODY)).encode()
    assert begun_.endswith(b"}")
    for place in (b'{"request": %b}', begun_[:-1] + b', "request": {"stream": true, "x": %b}}'):
        raw = place % (b"[" * 50_000 + b"]" * 50_000)
        async with server.session() as session, session.post("/internal/resume", data=raw) as answer:
            assert (answer.status, (await answer.json())["error"]["type"]) == (400, "invalid_request_error")


async def test_other_weights_are_a_conflict(server: Server) -> None:
    body = resume_body((await begun(server))[:3], BODY)
    body["start"]["model_hash"] = "0" * 32
    async with server.session() as session, session.post("/internal/resume", json=body) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (409, "model_mismatch")


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"outputs": []}, "outputs"),
        ({"outputs": [[70], [71]]}, "outputs"),
        ({"outputs": [[70] * 10]}, "outputs[0]"),
        ({"outputs": [[512]]}, "outputs[0]"),
        ({"outputs": [[-1]]}, None),
        ({"outputs": "none"}, None),
        ({"ended": [1]}, "ended"),
        ({"resumed_from": -1}, None),
        ({"request": {**BODY, "stream": False}}, "request.stream"),
        ({"request": {**BODY, "temperature": 9}}, "temperature"),
        ({"request": 7}, "request.stream"),
        ({"start": {}}, None),
        ({"unknown": 1}, None),
    ],
)
async def test_bodies_that_do_not_fit_together(
    server: Server, change: dict[str, Any], param: str | None
) -> None:
    body = {**resume_body((await begun(server))[:3], BODY), **change}
    async with server.session() as session, session.post("/internal/resume", json=body) as answer:
        error = (await answer.json())["error"]
        assert (answer.status, error["param"]) == (400, param), error


async def test_only_the_gateway_may(server: Server) -> None:
    async with server.session(API_KEY) as session, session.post("/internal/resume", json={}) as answer:
        assert answer.status == 401


@pytest.mark.parametrize(
    ("field", "value", "param"),
    [
        ("version", 2, None),
        ("path", "/v1/embeddings", "start.path"),
        ("path", 3, None),
        ("prompts", [], "messages"),
        ("prompts", [[]], "messages"),
        ("prompts", [[512]], "messages"),
        ("prompts", [[-1]], None),
        ("prompts", [[5] * 2000], "messages"),
        ("seeds", [2**64], None),
        ("seeds", [1, 2], "outputs"),
        ("max_tokens", [0], None),
        ("max_tokens", [2], "outputs[0]"),
        ("cached_tokens", -1, None),
        ("cached_tokens", 10_000, "start.cached_tokens"),
        ("id", "x" * 201, None),
        ("unknown", 1, None),
    ],
)
async def test_beginnings_that_never_were(server: Server, field: str, value: Any, param: str | None) -> None:
    """What a gateway cannot have got from us is refused, and nothing of it reaches the core."""
    body = resume_body((await begun(server))[:5], BODY)
    body["start"][field] = value
    async with server.session() as session, session.post("/internal/resume", json=body) as answer:
        error = (await answer.json())["error"]
        assert (answer.status, error["param"]) == (400, param), error
    assert len(server.core.seen) == 1


async def test_a_beginning_whose_rest_does_not_fit_here(server: Server) -> None:
    """The first replica had more room."""
    body = resume_body((await begun(server))[:5], BODY)
    body["start"]["max_tokens"] = [5000]
    async with server.session() as session, session.post("/internal/resume", json=body) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (400, "context_length_exceeded")


async def test_ids_whose_block_never_came_are_computed_again(server: Server) -> None:
    """A caller that knows more ids than it has text for gets the text, and log-probabilities of all of it."""
    tokenizer = server.services.text.tokenizer
    ids = tokenizer.encode("abcab", add_special_tokens=False)
    held = "".join(map(tokenizer.token, ids))
    body = {**BODY, "stop": [f"{held}never"], "logprobs": True}
    server.core.script(Script((70, *ids), finish="length"), Script(tuple(ids), finish="length"))
    blocks = parse(await post(server, CHAT, body))
    asked = resume_body(blocks[:2], body)
    assert asked["outputs"] == [[70]]
    asked["outputs"] = [[70, *ids[:-1]]]
    rest = parse(await post(server, "/internal/resume", asked))
    assert server.core.seen[-1].output_token_ids == [70]
    assert relayed(blocks[:2] + rest) == relayed(blocks)
