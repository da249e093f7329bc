"""The HTML report: one file that fetches nothing and escapes what it is given."""

from __future__ import annotations

import base64
from html.parser import HTMLParser

from tests.workbench.bench.runs import result, run
from workbench.bench.page import as_page


class _Links(HTMLParser):
    """Everything that a browser would load, and the elements that are open."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")]


def test_nothing_is_fetched_and_all_is_there() -> None:
    page = as_page(result(run("a", 100, 110, 120, 2000), run("b", 50, 60, 70, 80)), b"picture")
    links = _Links()
    links.feed(page)
    assert links.loads == ["data:image/png;base64," + base64.b64encode(b"picture").decode()]
    assert not {"script", "link", "iframe"} & set(links.tags)
    assert "@import" not in page
    assert "url(" not in page
    assert links.tags.count("table") == 3
    assert "3 (knee)" in page
    assert "farthest below the straight line" in page


def test_what_is_given_is_escaped() -> None:
    page = as_page(result(run("<script>alert(1)</script>", 100)), b"")
    assert "<script>" not in page
    assert "a note &lt;with&gt; marks" in page
