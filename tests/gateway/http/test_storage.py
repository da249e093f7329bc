"""What is checked of queries and bodies of files and batches."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from sqlalchemy.exc import OperationalError, ProgrammingError

from gateway.errors import GatewayError, ServiceUnavailable
from gateway.http.call import Call
from gateway.http.storage import (
    chosen,
    database_may_be_away,
    expiry_s,
    limit_of,
    page_of,
    query_of,
)
from gateway.wire.request import read_object


def call(query: bytes) -> Call:
    async def nothing(*_: Any) -> Any:
        return {}

    return Call({"query_string": query, "headers": []}, nothing, nothing, "req_1", lambda: 0.0)


def test_a_parameter_that_nobody_reads_is_refused() -> None:
    assert query_of(call(b"limit=5&after="), ("limit", "after")) == {"limit": "5", "after": ""}
    for query, param in ((b"limti=5", "limti"), (b"after=a%00b", "after"), (b"after=" + b"a" * 201, "after")):
        with pytest.raises(GatewayError) as caught:
            query_of(call(query), ("limit", "after"))
        assert (caught.value.status, caught.value.param) == (400, param)


@pytest.mark.parametrize("limit", ["0", "101", "-1", "1e1", "", "²", "9" * 30])
def test_limits_are_numbers_within_bounds(limit: str) -> None:
    assert (limit_of({}, 20, 100), limit_of({"limit": "100"}, 20, 100)) == (20, 100)
    with pytest.raises(GatewayError) as caught:
        limit_of({"limit": limit}, 20, 100)
    assert caught.value.param == "limit"


def test_words_are_one_of_those_known() -> None:
    assert (chosen({}, "order", ("asc",)), chosen({"order": "asc"}, "order", ("asc",))) == (None, "asc")
    with pytest.raises(GatewayError):
        chosen({"order": "up"}, "order", ("asc",))


def test_pages_say_whether_there_is_more() -> None:
    page = orjson.loads(page_of([{"id": "a"}, {"id": "b"}, {"id": "c"}], 2))
    assert page == {
        "object": "list", "data": [{"id": "a"}, {"id": "b"}], "first_id": "a", "last_id": "b", "has_more": True
    }  # fmt: skip
    assert orjson.loads(page_of([], 2))["first_id"] is None


def test_bodies_are_objects() -> None:
    assert read_object(b'{"a": 1}') == {"a": 1}
    for raw in (b"", b"[]", b"{", b"\xff"):
        with pytest.raises(GatewayError) as caught:
            read_object(raw)
        assert caught.value.status == 400


def test_a_time_to_live_is_between_an_hour_and_thirty_days() -> None:
    assert expiry_s(None, "x") is expiry_s({}, "x") is None
    assert expiry_s({"anchor": "created_at", "seconds": 3600}, "x") == 3600
    assert expiry_s({"anchor": "created_at", "seconds": "2592000"}, "x") == 2_592_000
    for seconds in (3599, True, 1e4, "1e4", "9" * 5000, None, [], 2_592_001):
        with pytest.raises(GatewayError) as caught:
            expiry_s({"anchor": "created_at", "seconds": seconds}, "x")
        assert caught.value.param == "x.seconds"


def test_a_database_that_is_away_is_503_and_a_mistake_is_not() -> None:
    with pytest.raises(ServiceUnavailable), database_may_be_away():
        raise OperationalError("", {}, Exception())
    with pytest.raises(ProgrammingError), database_may_be_away():
        raise ProgrammingError("", {}, Exception())
