"""The keywords of JSON schemas: which are served, which are refused, and whether their values are of the right kind.

Annotations and words that no draft knows say nothing about an answer and pass. Words that do say something and cannot
be kept are refused by name. Knows no grammar.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
NUMBER = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_OF_TYPE: Mapping[str, frozenset[str]] = {
    "object": frozenset(
        {
            "properties",
            "required",
            "additionalProperties",
            "minProperties",
            "maxProperties",
            "unevaluatedProperties",
        }
    ),
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "unevaluatedItems"}),
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "number": NUMBER | {"multipleOf"},
}
_ALONE = ("$ref", "const", "enum", "anyOf", "oneOf", "allOf")
"""Beside these only annotations stand, and a type beside values."""
_ASSERTIONS = frozenset().union(*_OF_TYPE.values())
_REFUSED = (
    *(
        "not",
        "if",
        "then",
        "else",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "patternProperties",
    ),
    *(
        "propertyNames",
        "contains",
        "minContains",
        "maxContains",
        "additionalItems",
        "$dynamicRef",
        "$recursiveRef",
    ),
)
MAX_VALUES = 2000


class SchemaError(Exception):
    """A schema is not served. `path` leads from its root to the place."""

    def __init__(self, path: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.path = path


def check(schema: dict[str, Any], path: tuple[str, ...]) -> None:
    """Raises `SchemaError` for the first keyword that is not served, or not of its kind."""
    for name, value in schema.items():
        if name in _REFUSED or (name in _NEUTRAL and value != _NEUTRAL[name]):
            raise SchemaError((*path, name), f"'{name[:40]}' is not supported")
        if name in _KINDS and not _KINDS[name](value):
            raise SchemaError((*path, name), f"this is no value for '{name}'")
    alone = [name for name in _ALONE if name in schema]
    beside = [name for name in schema if name in _ASSERTIONS]
    has_values = alone in (["const"], ["enum"])
    if len(alone) > 1 or (alone and (beside or ("type" in schema and not has_values))):
        others = [*alone[1:], *beside, "type"]
        raise SchemaError((*path, others[0]), f"'{others[0]}' beside '{alone[0]}' is not supported")


def types_of(schema: dict[str, Any], path: tuple[str, ...]) -> list[str] | None:
    """Those that the schema names, None if it names none. `number` stands for `integer` as well."""
    named = schema.get("type")
    if named is None:
        return None
    listed = [named] if isinstance(named, str) else named
    unknown = [name for name in listed if name not in TYPES]
    if unknown or not listed:
        raise SchemaError((*path, "type"), f"expected one or more of {', '.join(TYPES)}")
    return [name for name in dict.fromkeys(listed) if name != "integer" or "number" not in listed]


def implied_types(schema: dict[str, Any]) -> list[str] | None:
    """Those that its keywords speak of, if it names none."""
    return [name for name, words in _OF_TYPE.items() if not words.isdisjoint(schema)] or None


def is_of(value: Any, types: list[str]) -> bool:
    kinds = {
        dict: "object",
        list: "array",
        str: "string",
        bool: "boolean",
        float: "number",
        type(None): "null",
    }
    if isinstance(value, int) and not isinstance(value, bool):
        return "integer" in types or "number" in types
    return kinds[type(value)] in types


def integer_bounds(schema: dict[str, Any]) -> tuple[int | None, int | None]:
    low, high, above, below = number_bounds(schema)
    first = None if low is None else math.ceil(low) + (1 if above and math.ceil(low) == low else 0)
    last = None if high is None else math.floor(high) - (1 if below and math.floor(high) == high else 0)
    return first, last


def number_bounds(schema: dict[str, Any]) -> tuple[float | None, float | None, bool, bool]:
    """(low, high, low excluded, high excluded); the tighter one where both kinds of bound are given."""
    lows = [(schema[name], name != "minimum") for name in ("minimum", "exclusiveMinimum") if name in schema]
    highs = [(schema[name], name != "maximum") for name in ("maximum", "exclusiveMaximum") if name in schema]
    low, above = max(lows, default=(None, False))
    high, negated = min(((value, not excluded) for value, excluded in highs), default=(None, True))
    return low, high, above, not negated


def dump(value: Any) -> str:
    """As an answer writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_schema(value: Any) -> bool:
    return isinstance(value, bool | dict)


def _is_schemas(value: Any) -> bool:
    return isinstance(value, list) and 1 <= len(value) <= MAX_VALUES and all(map(_is_schema, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_NEUTRAL: Mapping[str, Any] = {
    "uniqueItems": False,
    "nullable": False,
    "multipleOf": 1,
    "unevaluatedProperties": False,
    "unevaluatedItems": False,
}
"""Served only where they say nothing, or what is so anyway."""
_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "$ref": _is_text,
    "type": lambda value: isinstance(value, str) or (isinstance(value, list) and all(map(_is_text, value))),
    "enum": lambda value: isinstance(value, list) and 1 <= len(value) <= MAX_VALUES,
    "anyOf": _is_schemas,
    "oneOf": _is_schemas,
    "allOf": _is_schemas,
    "properties": lambda value: isinstance(value, dict) and all(map(_is_schema, value.values())),
    "required": lambda value: isinstance(value, list) and all(map(_is_text, value)),
    "additionalProperties": _is_schema,
    "items": _is_schema,
    "prefixItems": _is_schemas,
    "pattern": _is_text,
    "format": _is_text,
    **dict.fromkeys(
        ("minProperties", "maxProperties", "minItems", "maxItems", "minLength", "maxLength"), _is_count
    ),
    **dict.fromkeys(NUMBER, _is_number),
}
