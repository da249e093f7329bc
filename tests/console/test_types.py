"""The console is checked against the API's description as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scripts.console_types import DESCRIPTION, TYPES, render


def test_types_are_those_of_the_description() -> None:
    assert TYPES.read_text() == render(json.loads(DESCRIPTION.read_text())), (
        "docs/openapi.json has changed: run `python -m scripts.console_types`, then `make console`, and commit both"
    )


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "array", "items": {"type": "integer"}}, "Array<number>"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
        ({"enum": ["a", "b"]}, '"a" | "b"'),
        ({"const": "x"}, '"x"'),
        ({"$ref": "#/components/schemas/A-B"}, "A_B"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "Record<string, number>"),
        (
            {"type": "object", "properties": {"a-b": {}, "c": {"type": "null"}}, "required": ["c"]},
            '{ "a-b"?: unknown; c: null }',
        ),
        ({"type": ["string", "null"]}, "string | null"),
        ({}, "unknown"),
    ],
)
def test_types_of_values(schema: dict[str, Any], expected: str) -> None:
    document = {"components": {"schemas": {"It": schema}}, "paths": {}}
    assert f"export type It = {expected};" in render(document)
