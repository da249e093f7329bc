"""Pages as OpenAI's lists have them."""

from __future__ import annotations

from datetime import UTC, datetime

from gateway.http.admin.common import page_of, plain_arrays, unix


def test_pages() -> None:
    rows = [{"id": name} for name in "abc"]
    page = page_of(rows, 2)
    assert (page["data"], page["has_more"]) == (rows[:2], True)
    assert (page["first_id"], page["last_id"]) == ("a", "b")
    assert page_of(rows, 3)["has_more"] is False
    empty = page_of([], 3)
    assert (empty["data"], empty["first_id"], empty["last_id"], empty["has_more"]) == ([], None, None, False)


def test_times() -> None:
    assert unix(datetime(1970, 1, 1, 0, 1, tzinfo=UTC)) == 60
    assert unix(None) is None


def test_arrays_in_brackets() -> None:
    assert plain_arrays(b"a[]=1&a%5b%5D=2&b=[]&c[]d=1") == b"a=1&a=2&b=[]&c[]d=1"
    assert plain_arrays(b"") == b""
