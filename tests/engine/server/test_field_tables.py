"""docs/engine-api.md names every field that is read, and every one that is refused. (Values: test_validation.)"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from engine.server import field_tables as tables
from engine.server import text_routes
from tests.tidy.tree import ROOT

TEXT = (ROOT / "docs" / "engine-api.md").read_text(encoding="utf-8")


def named_under(title: str) -> set[str]:
    """What stands in backticks below a heading."""
    (body,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S)
    return set(re.findall(r"`(\w+)`", body))


@pytest.mark.parametrize(
    ("title", "table"),
    [
        ("Both endpoints", tables.COMMON_FIELDS),
        ("Chat", {**tables.COMMON_FIELDS, **tables.CHAT_FIELDS}),
        ("Completions", {**tables.COMMON_FIELDS, **tables.COMPLETION_FIELDS}),
        ("Refused", {**tables.UNSUPPORTED_IN_CHAT, **tables.UNSUPPORTED_IN_COMPLETIONS}),
        ("Tokens", {**text_routes.TOKENIZE_FIELDS, **text_routes.DETOKENIZE_FIELDS}),
    ],
)
def test_fields_are_documented(title: str, table: Mapping[str, object]) -> None:
    known = named_under(title) | (named_under("Both endpoints") if title != "Refused" else set())
    missing = sorted(table.keys() - known)
    assert not missing, f"docs/engine-api.md, under {title}: {missing}"


def test_nothing_is_both_read_and_refused() -> None:
    for fields, refused in (
        (tables.CHAT_FIELDS, tables.UNSUPPORTED_IN_CHAT),
        (tables.COMPLETION_FIELDS, tables.UNSUPPORTED_IN_COMPLETIONS),
    ):
        assert not {*tables.COMMON_FIELDS, *fields} & refused.keys()
