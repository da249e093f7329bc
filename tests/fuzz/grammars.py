"""What an answer may be made to follow: good schemas, patterns and grammars, odd ones, and ones that are meant to hurt.

Some are refused, some lead to answers that never end before their limit, and none may do more than that.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

_OBJECT = {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"enum": [1, "x"]}}}
_TREE = {
    "$defs": {"tree": {"type": "object", "properties": {"t": {"$ref": "#/$defs/tree"}}, "required": ["t"]}},
    "$ref": "#/$defs/tree",
}


def _deep(levels: int) -> dict[str, Any]:
    inner = {"type": "string"} if levels == 0 else _deep(levels - 1)
    return {"type": "object", "properties": {"x": inner}, "required": ["x"]}


SCHEMAS: tuple[Any, ...] = (
    _OBJECT,
    {**_OBJECT, "required": ["a", "b"], "additionalProperties": False},
    {
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"type": ["null", "integer"]}},
    },
    {"type": "array", "items": {"type": "string", "pattern": "^[a-c]{1,3}$"}, "maxItems": 3},
    {"type": "integer", "minimum": -7, "maximum": 1234},
    {"anyOf": [{"const": "ü"}, {"type": "number"}]},
    {"type": "string", "format": "date-time"},
    _TREE,
    _deep(60),
    {},
    # What nothing can follow, or nobody serves.
    {"type": "integer", "minimum": 5, "maximum": 4},
    {"enum": []},
    {"$ref": "#/nowhere"},
    {"$ref": "http://elsewhere/schema"},
    {"$ref": "#"},
    {"type": "string", "pattern": "(a+)+$(?=b)"},
    {"type": "string", "pattern": "("},
    {"type": "string", "minLength": 10**9},
    {"type": "array", "minItems": 10**6, "items": {"type": "array", "minItems": 10**6}},
    {"enum": [f"word {number}" for number in range(3000)]},
    {"properties": {f"p{number}": {"type": "string"} for number in range(300)}},
    {"not": {}},
    {"type": "pirate"},
    {"allOf": [_OBJECT, {"type": "string"}]},
)
_REGEXES = (
    "[a-z]{1,8}",
    r"\d{3}-\d{4}",
    "(yes|no)+",
    "(a|a?)+",
    "(x{1,900}){1,900}",
    "[",
    r"\p{L}+",
    r"(?<a>b)\1",
)
_EBNF = (
    'root ::= "<" [a-z]+ ">" root?',
    'root ::= root "a" | "b"',
    'root ::= missing "a"',
    'root ::= ""',
    "root ::= [",
    'start ::= "a"',
    'root ::= "a"{1,1000000}',
    "\n".join(f"r{number} ::= r{number + 1} r{number + 1}" for number in range(40))
    + '\nr40 ::= "a"\nroot ::= r0',
)
OUTPUTS: tuple[Any, ...] = (
    *({"json": schema} for schema in SCHEMAS),
    *({"regex": regex} for regex in _REGEXES * 2),
    *({"grammar": grammar} for grammar in _EBNF * 2),
    *({"choice": choices} for choices in (["yes", "no"], ["ü" * 30], [str(n) for n in range(1024)])),
    {"json_object": True},
)
FORMATS: tuple[Any, ...] = (
    {"type": "text"},
    {"type": "json_object"},
    *({"type": "json_schema", "json_schema": {"name": "s", "schema": schema}} for schema in SCHEMAS),
)


def _function(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **more}}


_DAY = {"type": "object", "properties": {"day": {"type": "integer"}}, "required": ["day"]}
TOOLS: tuple[Any, ...] = (
    [_function("f", parameters=_DAY)],
    [_function("f", parameters={**_DAY, "additionalProperties": False}, strict=True), _function("g")],
    [_function("f"), _function("g-2", description="says " * 50, parameters={})],
    [_function("f", parameters=schema) for schema in SCHEMAS[:1]] + [_function("h", parameters=_TREE)],
)


def choice_of(chance: random.Random, options: Sequence[Any]) -> Any:
    """One of them, to be changed at will; the plain ones at the beginning rather often."""
    few = options[: max(1, len(options) // 2)]
    return copy.deepcopy(chance.choice(few if chance.random() < 0.5 else options))
