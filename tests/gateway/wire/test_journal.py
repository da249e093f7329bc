"""One attempt's figure from a page of an engine's journal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.wire.journal import read_figure
from gateway.wire.usage import Usage


def record(kind: str, completion: int | None, **extra: Any) -> dict[str, Any]:
    base = {"kind": kind, "request_id": "r", "attempt": 0, "prompt_tokens": 5, "cached_tokens": 1}
    return base | {"completion_tokens": completion, "overrun_tokens": None} | extra


def test_the_furthest_figure_of_the_journal() -> None:
    records = [record("start", None), record("progress", 2), record("progress", 9, attempt=1)]
    raw = json.dumps({"records": records, "cursor": "1", "complete": True}).encode()
    figure = read_figure(raw, "r", 0)
    assert figure is not None
    assert (figure.usage, figure.final) == (Usage(5, 2, 1), False)
    records += [record("end", 4, overrun_tokens=2), record("progress", 3)]
    figure = read_figure(json.dumps({"records": records}).encode(), "r", 0)
    assert figure is not None
    assert (figure.usage, figure.overrun_tokens, figure.final) == (Usage(5, 4, 1), 2, True)


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'{"records": [1, {}]}'])
def test_no_figure(raw: bytes) -> None:
    assert read_figure(raw, "r", 0) is None
