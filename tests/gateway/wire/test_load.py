"""What engines say of themselves: read when it is there, none when it is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.wire.journal import read_figure
from gateway.wire.load import EngineLoad, read_load, read_status
from gateway.wire.usage import Usage

HEADERS = {
    "x-engine-epoch": "e1",
    "x-engine-running": "2",
    "x-engine-waiting": "3",
    "x-engine-kv-usage": "0.25",
}
STATUS = {
    "epoch": "e1",
    "state": "ready",
    "model": "m",
    "served_model_names": ["m"],
    "max_model_len": 128,
    "pid": 1,
    "core_pid": 2,
    "running": 2,
    "waiting": 3,
    "kv_usage": 0.25,
    "request_ids": ["r1"],
}


def test_load_headers() -> None:
    assert read_load(HEADERS) == EngineLoad("e1", 2, 3, 0.25)
    assert read_load({}) is None
    assert read_load(HEADERS | {"x-engine-running": "many"}) is None


def test_status() -> None:
    status = read_status(json.dumps(STATUS).encode())
    assert status is not None
    assert (status.load.requests, status.state, status.request_ids) == (5, "ready", frozenset({"r1"}))


@pytest.mark.parametrize(
    "broken", [b"", b"[]", json.dumps(STATUS | {"state": "asleep"}).encode(), b'{"state":"ready"}']
)
def test_status_of_something_else(broken: bytes) -> None:
    assert read_status(broken) is None


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
