"""The FakeEngine's side of a continued stream: the comment lines that it sends, the request that it takes.

A token's id is its place in the answer, so that a test can see which of them a gateway has kept.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

FIRST_ID = 1000


@dataclass(frozen=True)
class Resumed:
    """An answer that another engine began."""

    start: dict[str, Any]
    outputs: list[int]
    has_ended: bool
    resumed_from: int

    @classmethod
    def read(cls, body: dict[str, Any]) -> Resumed:
        [outputs] = body["outputs"]
        assert outputs == [FIRST_ID + place for place in range(len(outputs))], outputs
        assert body["request"]["stream"] is True
        return cls(body["start"], outputs, body["ended"] == [0], body["resumed_from"])

    @property
    def head(self) -> dict[str, Any]:
        return {name: self.start[name] for name in ("id", "created", "model")}


def begin(path: str, cached_tokens: int, model_hash: str, head: dict[str, Any]) -> bytes:
    start = {"version": 1, "path": path, "model_hash": model_hash, **head, "cached_tokens": cached_tokens}
    return b": resume " + json.dumps(start).encode() + b"\n"


def ids(place: int) -> bytes:
    return b": ids 0 %d\n" % (FIRST_ID + place)


END = b": end 0\n"
