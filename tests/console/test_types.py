"""What the console asks for is what the API describes. That its types are the description's, whole, tests/tidy checks."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from scripts.console_types import DESCRIPTION, TYPES, render

SOURCES = TYPES.parents[1]
_CALL = re.compile(r'"((?:GET|POST|PATCH|PUT|DELETE) /v1/[^"\s]+)"')


def test_every_call_is_described() -> None:
    document = json.loads(DESCRIPTION.read_text())
    described = {
        f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods
    }
    asked = {
        call
        for path in SOURCES.rglob("*.ts*")
        if path != TYPES and ".test." not in path.name
        for call in _CALL.findall(path.read_text())
    }
    assert len(asked) > 50
    assert not asked - described, "the console asks for what the API does not have"


def test_the_whole_description_can_be_written_as_types() -> None:
    text = render(json.loads(DESCRIPTION.read_text()))
    assert "export interface Operations {" in text
    assert '"GET /v1/organization/projects": { path: {}; query: {' in text


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
