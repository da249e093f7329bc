"""Whole answers: usage, the model's name, and errors in every dress."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.wire.answer import EngineError, Rename, read_answer, read_error
from gateway.wire.usage import Usage


def test_reads_usage_and_keeps_the_bytes() -> None:
    raw = b'{ "model":"up", "x":1e-05, "usage":{"prompt_tokens":3,"completion_tokens":2} }'
    answer = read_answer(raw, None)
    assert answer is not None
    assert (answer.body, answer.usage) == (raw, Usage(3, 2))


def test_renames() -> None:
    answer = read_answer(b'{"model": "up", "choices": []}', Rename.between("up", "mine"))
    assert answer is not None
    assert json.loads(answer.body)["model"] == "mine"
    assert Rename.between("same", "same") is None


@pytest.mark.parametrize("raw", [b"", b"[]", b"oops"])
def test_nonsense_is_no_answer(raw: bytes) -> None:
    assert read_answer(raw, None) is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {"error": {"message": "m", "type": "t", "param": "p", "code": "c"}},
            EngineError("m", "t", "p", "c"),
        ),
        ({"error": {"message": "m", "code": 400}}, EngineError("m", None, None, None)),
        ({"error": "text"}, EngineError("text", None, None, None)),
        ({"object": "error", "message": "flat", "type": "t"}, EngineError("flat", "t", None, None)),
        ({"error": [1]}, EngineError(None, None, None, None)),
        (
            {"error": {"message": "m"}, "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
            EngineError("m", None, None, None, Usage(1, 2)),
        ),
    ],
)
def test_errors(body: Any, expected: EngineError) -> None:
    assert read_error(json.dumps(body).encode()) == expected


def test_an_error_that_is_no_json() -> None:
    assert read_error(b"<html>") == EngineError(None, None, None, None)
