"""Reads a stream as the gateway does: block by block, with the comment lines that docs/engine-internal.md defines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from engine.server.choice import Delta
from engine.server.gathered import Gathered


@dataclass
class Block:
    """One event, and what its comment lines say."""

    data: bytes
    ids: dict[int, list[int]] = field(default_factory=dict)
    ended: list[int] = field(default_factory=list)
    start: bytes | None = None

    @property
    def relayed(self) -> bytes:
        """What a client sees."""
        return b"data: " + self.data + b"\n\n"

    @property
    def text(self) -> str:
        """Of the block's only choice."""
        (choice,) = json.loads(self.data)["choices"]
        shown: dict[str, Any] = choice.get("delta", {})
        return str(choice.get("text", shown.get("content", "")))


def parse(raw: bytes) -> list[Block]:
    """The whole blocks of a stream."""
    assert raw.endswith(b"\n\n"), raw[-80:]
    return [_block(part) for part in raw[:-2].split(b"\n\n")]


def joined(news: Iterable[Delta]) -> Delta:
    """All news of an only choice as one."""
    gathered = Gathered()
    gathered.add(news)
    (whole,) = gathered.whole()
    return whole


def _block(part: bytes) -> Block:
    *comments, data = part.split(b"\n")
    assert data.startswith(b"data: "), part
    block = Block(data.removeprefix(b"data: "))
    for line in comments:
        kind, _, rest = line.removeprefix(b": ").partition(b" ")
        if kind == b"ids":
            index, *ids = map(int, rest.split(b" "))
            block.ids[index] = ids
        elif kind == b"end":
            block.ended.append(int(rest))
        else:
            assert kind == b"resume", line
            block.start = rest
    return block
