"""Pages read backwards: the row too many is the one farthest away."""

from __future__ import annotations

from gateway.http.admin.alert_books import Cursor, turned_page

ROWS = [{"id": name} for name in "abc"]


def test_turned_pages() -> None:
    forwards, backwards = Cursor(2, after="z"), Cursor(2, before="d")
    assert turned_page(ROWS, forwards)["data"] == ROWS[:2]
    page = turned_page(ROWS, backwards)
    assert (page["data"], page["has_more"], page["first_id"]) == (ROWS[1:], True, "b")
    assert turned_page(ROWS[1:], backwards)["has_more"] is False
    assert turned_page([], backwards)["data"] == []
    assert not Cursor(2, after="a", before="d").is_backwards
