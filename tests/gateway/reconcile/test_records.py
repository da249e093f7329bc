"""Records of a journal, one at a time: what cannot be read stands before nobody."""

import json

import pytest

from gateway.reconcile.records import read_records

GOOD = {
    "kind": "end",
    "request_id": "req_1",
    "engine_request_id": "cmpl-1",
    "attempt": 1,
    "epoch": "e1",
    "prompt_tokens": 10,
    "cached_tokens": 12,
    "completion_tokens": 7,
    "finish_reason": "stop",
    "queue_ms": 0.6,
    "at_ms": 1_764_417_600_123,
}


def test_a_record_is_read_within_its_bounds() -> None:
    (record,), unreadable = read_records([json.dumps({**GOOD, "resumed_from": 4}).encode()])
    assert unreadable == ()
    assert (record.request_id, record.attempt, record.resumed_from, record.queue_ms) == ("req_1", 1, 4, 1)
    assert record.cached_tokens == 10, "cached tokens are prompt tokens"
    assert record.at.isoformat() == "2025-11-29T12:00:00.123000+00:00"


def test_callers_without_a_gateway_are_passed_over() -> None:
    assert read_records([json.dumps({**GOOD, "request_id": None}).encode()]) == ((), ())


@pytest.mark.parametrize(
    "broken",
    [
        b"{",
        b"\xff\x00",
        json.dumps({**GOOD, "kind": "teleported"}).encode(),
        json.dumps({**GOOD, "request_id": "req\0"}).encode(),
        json.dumps({**GOOD, "completion_tokens": 2**70}).encode(),
        json.dumps({**GOOD, "completion_tokens": -1}).encode(),
        json.dumps({**GOOD, "prompt_tokens": 10**9 + 1}).encode(),
        json.dumps({**GOOD, "at_ms": 10**18}).encode(),
        json.dumps({**GOOD, "attempt": 99_999}).encode(),
    ],
)
def test_what_no_table_could_hold_is_set_aside_and_the_rest_is_read(broken: bytes) -> None:
    records, (unreadable,) = read_records([json.dumps(GOOD).encode(), broken, json.dumps(GOOD).encode()])
    assert len(records) == 2
    assert "\0" not in unreadable.shown + unreadable.error
    assert unreadable.error
