"""Readers of single fields: types, ranges, paths."""

from __future__ import annotations

from typing import Any

import pytest

from engine.server import fields
from engine.server.errors import ApiError
from engine.server.fields import Field, Unsupported


@pytest.mark.parametrize(
    ("read", "good"),
    [
        (fields.number(0, 2), [0, 2, 1.5]),
        (fields.integer(1, 5), [1, 5, 2.0]),
        (fields.flag, [True, False]),
        (fields.text(3), ["", "abc"]),
        (fields.obj, [{}, {"a": 1}]),
        (fields.items(2, fields.flag), [[], [True, False]]),
        (fields.token_ids(2), [[], [0, 2**31 - 1]]),
        (fields.stops(2, 3), ["a", ["a", "abc"]]),
        (fields.logit_bias(2), [{}, {"5": -100, "7": 1.5}]),
    ],
)
def test_accepts(read: fields.Reader, good: list[Any]) -> None:
    for value in good:
        read("x", value)
    assert good


@pytest.mark.parametrize(
    ("read", "bad"),
    [
        (fields.number(0, 2), [-0.1, 2.1, "1", True, [], float("nan")]),
        (fields.integer(1, 5), [0, 6, 6.0, 1.5, 1e300, float("inf"), float("nan"), "1", False]),
        (fields.flag, [1, 0, "true"]),
        (fields.text(3), ["abcd", 5]),
        (fields.obj, [[], "a"]),
        (fields.items(2, fields.flag), [[True] * 3, [1], {}]),
        (fields.token_ids(2), [[1] * 3, [-1], [2**31], [True], [1.5], ["1"], 1]),
        (fields.stops(2, 3), ["", ["a", ""], ["a"] * 3, "abcd", 5]),
        (fields.logit_bias(2), [{"x": 1}, {"-1": 1}, {"5": 101}, {"1": 0, "2": 0, "3": 0}, {"²": 1}, []]),
    ],
)
def test_refuses(read: fields.Reader, bad: list[Any]) -> None:
    for value in bad:
        with pytest.raises(ApiError) as caught:
            read("x", value)
        assert caught.value.status == 400, value
        assert (caught.value.param or "").startswith("x")


def test_whole_numbers_are_integers_however_they_are_written() -> None:
    """Where a float holds them exactly: beyond, the number may be another than the caller wrote."""
    for read, given, found in (
        (fields.integer(1), 16.0, 16),
        (fields.integer(0), 2.0**53, 2**53),
        (fields.token_ids(2), [1.0, 2], (1, 2)),
    ):
        value = read("x", given)
        assert value == found
        assert type(value) is type(found)
    with pytest.raises(ApiError, match="expected an integer"):
        fields.integer(0)("x", 2.0**54)


def test_paths_of_elements() -> None:
    with pytest.raises(ApiError) as caught:
        fields.items(9, fields.flag)("x", [True, 1])
    assert caught.value.param == "x[1]"
    with pytest.raises(ApiError) as caught:
        fields.token_ids(9)("x", [1, 2, -1])
    assert caught.value.param == "x[2]"
    with pytest.raises(ApiError) as caught:
        fields.items(9, fields.items(9, fields.flag))("x", [[True], [True, 1]])
    assert caught.value.param == "x[1][1]"


def test_null_is_absent() -> None:
    table = {"a": Field(fields.flag, True), "b": Field(fields.flag)}
    assert fields.read_fields({"a": None, "c": 1}, table) == {"a": True, "b": None}
    with pytest.raises(ApiError, match="Missing"):
        fields.read_fields({"a": None}, {"a": Field(fields.flag, required=True)})


def test_neutral_values_of_unsupported_fields() -> None:
    table = {"a": Unsupported("no.", (False, 0))}
    for body in ({}, {"a": None}, {"a": False}, {"a": 0}):
        fields.refuse_unsupported(body, table)
    for value in (True, 1, "", 0.0):
        with pytest.raises(ApiError) as caught:
            fields.refuse_unsupported({"a": value}, table)
        assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "a")
