"""Keywords and the kinds of their values."""

from __future__ import annotations

from typing import Any

import pytest

from engine.text.schema import keywords
from engine.text.schema.keywords import SchemaError


@pytest.mark.parametrize(
    "schema",
    [
        {"title": 5, "description": [], "x": {"not": 1}, "default": {"if": 1}},
        {"uniqueItems": False, "nullable": False, "multipleOf": 1, "unevaluatedProperties": False},
        {"type": "string", "enum": ["a"]},
        {"$ref": "#", "description": "d", "$defs": {}},
    ],
)
def test_what_says_nothing_passes(schema: dict[str, Any]) -> None:
    keywords.check(schema, ())
    assert keywords.implied_types({"title": "t"}) is None


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"minimum": "5"}, "minimum"),
        ({"minimum": True}, "minimum"),
        ({"maximum": float("inf")}, "maximum"),
        ({"maxItems": 1.5}, "maxItems"),
        ({"required": ["a", 1]}, "required"),
        ({"properties": []}, "properties"),
        ({"items": [{}]}, "items"),
        ({"$ref": 5}, "$ref"),
        ({"pattern": 5}, "pattern"),
        ({"uniqueItems": True}, "uniqueItems"),
        ({"const": 1, "enum": [1]}, "enum"),
        ({"$ref": "#", "type": "object"}, "type"),
    ],
)
def test_what_is_refused(schema: dict[str, Any], place: str) -> None:
    with pytest.raises(SchemaError) as caught:
        keywords.check(schema, ("here",))
    assert caught.value.path == ("here", place)


def test_types() -> None:
    assert keywords.types_of({"type": ["integer", "number", "null", "null"]}, ()) == ["number", "null"]
    assert keywords.types_of({}, ()) is None
    assert keywords.implied_types({"maxLength": 1, "minimum": 2}) == ["string", "number"]
    for value, name in (
        (True, "boolean"),
        (1, "integer"),
        (1, "number"),
        (1.5, "number"),
        (None, "null"),
        ("", "string"),
    ):
        assert keywords.is_of(value, [name])
    assert not keywords.is_of(True, ["integer", "number"])


def test_bounds() -> None:
    both = {"minimum": 2, "exclusiveMinimum": 2, "maximum": 9, "exclusiveMaximum": 9.5}
    assert keywords.number_bounds(both) == (2, 9, True, False)
    assert keywords.integer_bounds(both) == (3, 9)
    assert keywords.integer_bounds({"minimum": -1.5, "exclusiveMaximum": 4}) == (-1, 3)
    assert keywords.number_bounds({}) == (None, None, False, False)
