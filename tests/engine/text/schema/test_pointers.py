"""References, and branches that exclude each other."""

from __future__ import annotations

from typing import Any

import pytest

from engine.text.schema.keywords import SchemaError
from engine.text.schema.pointers import MAX_BRANCHES, Pointers

ROOT = {
    "$defs": {"a": {"$ref": "#/$defs/b~1c"}, "b/c": {"type": "null"}, "%": [{"const": 1}]},
    "items": {"$ref": "#"},
}


def test_resolution() -> None:
    pointers = Pointers(ROOT)
    assert pointers.resolve("#", ()) == (ROOT, "#")
    assert pointers.resolve("#/$defs/a", ()) == ({"type": "null"}, "#/$defs/b~1c")
    assert pointers.resolve("#/$defs/%25/0", ()) == ({"const": 1}, "#/$defs/%25/0")
    for pointer in (
        "#/$defs/x",
        "#a",
        "a.json",
        "#/$defs/%25/1",
        "#/$defs/%25/x",
        "",
        "https://example.org/#/a",
    ):
        with pytest.raises(SchemaError):
            pointers.resolve(pointer, ("here",))


@pytest.mark.parametrize(
    ("schemas", "disjoint"),
    [
        ([{"type": "integer"}, {"type": "string"}], True),
        ([{"type": "integer"}, {"type": "number"}], False),
        ([{"const": 1}, {"enum": [2, 3]}], True),
        ([{"const": 1}, {"enum": [1, 3]}], False),
        ([{}, {"type": "string"}], False),
        ([{"type": "integer"}, {"maxLength": 2}], False),
        (
            [{"type": "object", "required": ["k"], "properties": {"k": {"const": kind}}} for kind in "ab"],
            True,
        ),
        ([{"type": "object", "properties": {"k": {"const": kind}}} for kind in "ab"], False),
        (
            [
                {"type": ["object", "null"], "required": ["k"], "properties": {"k": {"const": kind}}}
                for kind in "ab"
            ],
            False,
        ),
        ([{"$ref": "#/$defs/a"}, {"type": "array"}], True),
        ([True, {"type": "array"}], False),
    ],
)
def test_disjoint(schemas: list[Any], disjoint: bool) -> None:
    if disjoint:
        Pointers(ROOT).check_disjoint(schemas, ())
    else:
        with pytest.raises(SchemaError, match="anyOf"):
            Pointers(ROOT).check_disjoint(schemas, ())


def test_a_choice_of_too_many() -> None:
    schemas = [{"const": number} for number in range(MAX_BRANCHES + 1)]
    Pointers(ROOT).check_disjoint(schemas[1:], ())
    with pytest.raises(SchemaError, match="at most"):
        Pointers(ROOT).check_disjoint(schemas, ())
