"""Token ids beside a stream: whole blocks with their ids, for the gateway alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engine.server.conftest import API_KEY, INTERNAL_KEY, MODEL, Server
from tests.engine.server.streams import Block, parse
from tests.fakes.core import Script

CHAT: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "The lamps"}],
    "stream": True,
    "max_tokens": 6,
    "seed": 5,
}
COMPLETION: dict[str, Any] = {
    "model": MODEL,
    "prompt": "The lamps",
    "stream": True,
    "max_tokens": 6,
    "seed": 5,
}
ASK = {"x-emit-token-ids": "1"}


async def stream(
    server: Server, path: str, body: dict[str, Any], key: str = INTERNAL_KEY, **headers: str
) -> bytes:
    asked = {name.replace("_", "-"): value for name, value in headers.items()} or ASK
    async with server.session(key) as session, session.post(path, json=body, headers=asked) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.read()


@pytest.mark.parametrize(("path", "body"), [("/v1/chat/completions", CHAT), ("/v1/completions", COMPLETION)])
async def test_ids_stand_beside_their_text(server: Server, path: str, body: dict[str, Any]) -> None:
    """Every id once, in the block that shows its text; without the lines the stream is the ordinary one."""
    raw = await stream(server, path, body)
    blocks = parse(raw)
    sent = server.core.seen[-1]
    ids = [token for block in blocks for token in block.ids.get(0, [])]
    assert ids == [sent.prompt_token_ids[i % len(sent.prompt_token_ids)] for i in range(6)]
    tokenizer = server.services.text.tokenizer
    for block in blocks:
        if block.ids:
            shown = b"".join(map(tokenizer.token_bytes, block.ids[0])).decode()
            assert shown in ("", block.text) or block.ids[0][0] in tokenizer.special_ids
    assert [block.ended for block in blocks if block.ended] == [[0]]
    plain = await stream(server, path, body, x_emit_token_ids="0")
    assert len(parse(plain)) == len(blocks)
    assert b"\n:" not in plain
    assert not plain.startswith(b":")


async def test_the_start_says_what_ids_do_not(server: Server) -> None:
    server.core.script(Script((70, 71), finish="length", cached_tokens=3))
    blocks = parse(await stream(server, "/v1/chat/completions", CHAT))
    starts = [block.start for block in blocks if block.start is not None]
    assert len(starts) == 1
    start = json.loads(starts[0])
    sent = server.core.seen[-1]
    head = json.loads(blocks[0].data)
    assert (start["id"], start["created"]) == (head["id"], head["created"])
    assert (start["prompts"], start["seeds"], start["max_tokens"]) == ([sent.prompt_token_ids], [5], [6])
    assert (start["path"], start["cached_tokens"]) == ("/v1/chat/completions", 3)
    assert start["model_hash"] == server.services.model_hash


async def test_held_back_tokens_come_with_the_text(server: Server) -> None:
    """A stop that does not complete: the ids wait with the text."""
    ids = server.services.text.tokenizer.encode("abcab", add_special_tokens=False)
    whole = "".join(map(server.services.text.tokenizer.token, ids))
    server.core.script(Script(tuple(ids), finish="length"))
    body = {**COMPLETION, "stop": [f"{whole}never"], "max_tokens": 50}
    blocks = [block for block in parse(await stream(server, "/v1/completions", body)) if block.ids]
    assert [block.ids[0] for block in blocks] == [ids]


async def test_several_choices_are_told_apart(server: Server) -> None:
    server.core.script(Script((70, 71, 72), finish="length"), Script((80, 81), finish="stop"))
    body = {**COMPLETION, "n": 2}
    blocks = parse(await stream(server, "/v1/completions", body))
    ids: dict[int, list[int]] = {0: [], 1: []}
    for block in blocks:
        for index, found in block.ids.items():
            ids[index] += found
    assert ids == {0: [70, 71, 72], 1: [80, 81, 1]}
    assert sorted(index for block in blocks for index in block.ended) == [0, 1]


async def test_others_do_not_get_them(server: Server) -> None:
    raw = await stream(server, "/v1/chat/completions", CHAT, key=API_KEY)
    assert b": ids" not in raw
    async with server.session() as session:
        headers = {"x-emit-token-ids": "yes"}
        async with session.post("/v1/chat/completions", json=CHAT, headers=headers) as answer:
            assert (answer.status, (await answer.json())["error"]["param"]) == (400, "x-emit-token-ids")


def test_a_block_without_lines_is_itself() -> None:
    assert parse(b'data: {"a":1}\n\ndata: [DONE]\n\n') == [Block(b'{"a":1}'), Block(b"[DONE]")]
