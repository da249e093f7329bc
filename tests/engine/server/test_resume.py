"""A stream cut anywhere and gone on with elsewhere is the stream that was not cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.server.journal import Record
from engine.server.journal_reader import read_page
from tests.engine.server.answer_template import TEMPLATE
from tests.engine.server.conftest import API_KEY, MODEL, Server, running_server
from tests.engine.server.resume_cases import CHAT, Case, cases
from tests.engine.server.streams import Block, parse
from tests.fakes.core import Script
from tests.models import write_tiny_llama

ASK = {"x-emit-token-ids": "1"}
AT_ONCE = 24
REPLICA: dict[str, Any] = {"batch_invariant": True, "reasoning_parser": "qwen3", "tool_call_parser": "hermes"}


def resume_body(blocks: Sequence[Block], request: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """What a gateway sends that relayed these blocks."""
    assert blocks[0].start is not None
    start = json.loads(blocks[0].start)
    outputs: list[list[int]] = [[] for _ in start["seeds"]]
    for block in blocks:
        for index, ids in block.ids.items():
            outputs[index] += ids
    ended = [index for block in blocks for index in block.ended]
    return {"start": start, "outputs": outputs, "ended": ended, "request": request, **changes}


def relayed(blocks: Sequence[Block]) -> bytes:
    return b"".join(block.relayed for block in blocks)


def by_choice(stream: bytes) -> list[Any]:
    """What does not depend on which step brought what: the events of each choice in order, its role once, and usage
    only at the end."""
    events = [json.loads(block.data) for block in parse(stream) if block.data != b"[DONE]"]
    roles: set[int] = set()
    kept = []
    for event in events:
        choice: dict[str, Any] = event["choices"][0] if event["choices"] else {"index": len(events)}
        if event["choices"]:
            event.pop("usage", None)
        if "role" in choice.get("delta", ()):
            if choice["index"] in roles:
                continue
            roles.add(choice["index"])
        kept.append((choice["index"], event))
    return [event for _, event in sorted(kept, key=lambda pair: pair[0])]


async def post(server: Server, path: str, body: dict[str, Any], **headers: str) -> bytes:
    sent = ASK | {name.replace("_", "-"): value for name, value in headers.items()}
    async with server.session() as session, session.post(path, json=body, headers=sent) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.read()


def test_there_are_fifty_cases() -> None:
    names = [name for name, _, _ in cases()]
    assert len(names) >= 50
    assert len(set(names)) == len(names)


@pytest.fixture(scope="module")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resume") / "llama"
    write_tiny_llama(folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


async def test_cut_at_every_token(tiny_llama: Path, tmp_path: Path) -> None:
    """Every case, at every block: what was relayed and what another replica adds are the bytes of the whole."""
    async with (
        running_server(tiny_llama, tmp_path / "a", real_core=True, **REPLICA) as one,
        running_server(tiny_llama, tmp_path / "b", real_core=True, **REPLICA) as other,
    ):
        room = asyncio.Semaphore(AT_ONCE)

        async def check(case: Case) -> list[str]:
            name, path, body = case
            request = {"model": MODEL, **body}
            blocks = parse(await post(one, path, request))
            whole = relayed(blocks)
            last = max(number for number, block in enumerate(blocks, 1) if block.ended)

            async def at(cut: int) -> str | None:
                async with room:
                    rest = await post(other, "/internal/resume", resume_body(blocks[:cut], request))
                joined = relayed(blocks[:cut]) + relayed(parse(rest))
                if name.endswith(("two choices", "usage in every chunk")):
                    same = by_choice(joined) == by_choice(whole)
                else:
                    same = joined == whole
                return None if same else f"{name} at {cut}:\n{joined!r}\n{whole!r}"

            found = await asyncio.gather(*(at(cut) for cut in range(1, last + 1)))
            return [difference for difference in found if difference is not None]

        differences = await asyncio.gather(*map(check, cases()))
        wrong = [each for some in differences for each in some]
        assert not wrong, f"{len(wrong)} differ, the first: {wrong[0]}"


# -- with a scripted core: the body, the bill -------------------------------------------------------------

BODY: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "The lamps"}],
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": 9,
}


def records(server: Server) -> list[Record]:
    assert server.services.journal_dir is not None
    return read_page(server.services.journal_dir, "", 10_000).records


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
