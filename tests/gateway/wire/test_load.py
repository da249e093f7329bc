"""What engines say of themselves: read when it is there, none when it is not."""

from __future__ import annotations

import json

import pytest

from gateway.wire.load import (
    EngineCounters,
    EngineLoad,
    read_counters,
    read_delay,
    read_exposition,
    read_load,
    read_status,
    read_wait,
)

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


@pytest.mark.parametrize(
    ("text", "load"),
    [
        (
            """# HELP vllm:num_requests_running x
vllm:num_requests_running{engine="0",model_name="a b"} 2.0
vllm:num_requests_running{engine="1",model_name="a b"} 1.0
vllm:num_requests_waiting{engine="0"} 4.0 1700000000
vllm:num_requests_waiting_by_reason{engine="0"} 99
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.5
""",
            EngineLoad(None, 3, 4, 0.5),
        ),
        ("llamacpp:requests_processing 1\nllamacpp:requests_deferred 2\n", EngineLoad(None, 1, 2, 0.0)),
        (
            "sglang:num_running_reqs 5\nsglang:num_queue_reqs NaN\nsglang:token_usage -1",
            EngineLoad(None, 5, 0, 0.0),
        ),
        ("vllm:num_requests_running{\nvllm:num_requests_waiting\n", EngineLoad(None, 0, 0, 0.0)),
        ("vllm:num_requests_running 1\n", None),
        ("<html>not found</html>", None),
    ],
)
def test_exposition(text: str, load: EngineLoad | None) -> None:
    """Parts of one server add up; of what is no number nothing is made."""
    assert read_exposition(text) == load


def test_counters_are_added_up_over_the_parts_of_a_server() -> None:
    text = """# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0"} 3
vllm:num_preemptions_total{engine="1"} 4
vllm:generation_tokens_total{model_name="m"} 1.5e3
vllm:prompt_tokens_total{model_name="m"} 9
"""
    assert read_counters(text) == EngineCounters(preemptions=7, tokens=1_500)
    assert read_counters("llamacpp:tokens_predicted_total 12\n") == EngineCounters(None, 12)
    assert read_counters("") == EngineCounters(None, None)


def test_the_wait_of_one_request() -> None:
    assert read_wait({"x-engine-queue-ms": "12"}) == 12
    for odd in ("", "-1", "1.5", "x", "9" * 30, "\u0661"):
        assert read_wait({"x-engine-queue-ms": odd}) is None
    assert read_wait({}) is None


def test_the_wait_that_is_predicted() -> None:
    assert read_delay({"x-engine-predicted-delay-ms": "0"}) == 0
    assert read_delay({"x-engine-predicted-delay-ms": "1500"}) == 1500
    for odd in ("", "-1", "1.5", "nan", "9" * 10, "\u0661"):
        assert read_delay({"x-engine-predicted-delay-ms": odd}) is None
    assert read_delay({}) is None
