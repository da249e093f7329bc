"""Bodies that are no objects, too deep, or too many. (Through HTTP: test_validation.)"""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest

from engine.server.errors import ApiError
from engine.server.json_body import MAX_DEPTH, MAX_VALUES, parse_json


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"5", b'{"a": NaN}', b'"x"', b"\xff", b'{"a":' + b"[" * 5000, b'"\\ud800"']
)
def test_bodies_that_are_no_objects(raw: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        parse_json(raw)
    assert (caught.value.status, caught.value.param, caught.value.code) == (400, None, None)


def nested(depth: int, box: str) -> bytes:
    """`depth` arrays or objects within each other, the body included."""
    value: Any = 1
    for _ in range(depth - 1):
        value = [value] if box == "list" else {"a": value, "b": 2}
    return json.dumps({"a": value, "wide": [[1]] * 200}).encode()


@pytest.mark.parametrize("box", ["list", "dict"])
def test_depth(box: str) -> None:
    assert parse_json(nested(MAX_DEPTH, box))["wide"]
    with pytest.raises(ApiError, match=f"deeper than {MAX_DEPTH}"):
        parse_json(nested(MAX_DEPTH + 1, box))


def test_number_of_values() -> None:
    most = b'{"a":[' + b"0," * (MAX_VALUES - 1) + b"0]}"
    assert len(parse_json(most)["a"]) == MAX_VALUES
    with pytest.raises(ApiError, match="values"):
        parse_json(most[:-2] + b",0]}")


def test_no_collection_looks_at_a_body_that_comes_into_being() -> None:
    seen: list[str] = []
    raw = json.dumps({"x": [[1]] * 100_000}).encode()

    def note(phase: str, about: dict[str, int]) -> None:
        seen.append(phase)

    gc.callbacks.append(note)
    try:
        parse_json(raw)
    finally:
        gc.callbacks.remove(note)
    assert len(seen) <= 4  # that of what came before, and of the depth's check
    assert gc.isenabled()
