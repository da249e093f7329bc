"""Rows: the lowest free one first, each given up named once."""

from __future__ import annotations

import pytest

from engine.core.request import Request
from engine.core.rows import Rows
from tests.engine.core.harness import add


def request(id: str, **fields: object) -> Request:
    return Request.from_message(add(id, 5, **fields), sequence=0, now=0.0, eos_token_ids=())  # type: ignore[arg-type]


def test_rows_are_taken_and_given_up() -> None:
    rows = Rows(3)
    a, b, c = request("a"), request("b", request_class="batch"), request("c")
    for each in (a, b, c):
        rows.enter(each)
    assert ([a.row, b.row, c.row], rows.num_free, rows.num_of_class) == ([0, 1, 2], 0, [2, 1])
    rows.leave(b)
    rows.leave(a)
    assert rows.running() == [c]
    assert (rows.take_freed(), rows.take_freed()) == ([1, 0], [])
    rows.enter(b)
    assert (b.row, rows.num_running, rows.num_of_class) == (0, 2, [1, 1])
    rows.check_integrity()


def test_check_integrity_sees_a_row_with_two_owners() -> None:
    rows = Rows(2)
    a = request("a")
    rows.enter(a)
    rows.seats[1] = a
    with pytest.raises(AssertionError):
        rows.check_integrity()
