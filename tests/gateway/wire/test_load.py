"""What engines say of themselves: read when it is there, none when it is not."""

from __future__ import annotations

import json

import pytest

from gateway.wire.load import EngineLoad, read_load, read_status

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
