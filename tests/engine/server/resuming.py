"""What a gateway does to go on with a stream: reads its blocks, keeps the ids, and asks another replica."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.engine.server.conftest import Server
from tests.engine.server.streams import Block

ASK = {"x-emit-token-ids": "1"}


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


async def post(server: Server, path: str, body: dict[str, Any], **headers: str) -> bytes:
    sent = ASK | {name.replace("_", "-"): value for name, value in headers.items()}
    async with server.session() as session, session.post(path, json=body, headers=sent) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.read()
