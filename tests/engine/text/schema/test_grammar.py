"""Every text of a schema's grammar is valid, and what a model would reasonably say belongs to it."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import jsonschema
import pytest

from engine.text.schema import SchemaError, schema_grammar
from tests.grammars import accepts, bound, walk
from tests.seeds import seed_of_test

POINT = {
    "type": "object",
    "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
    "required": ["x"],
}
TREE = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 5},
        "children": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
    },
    "required": ["name"],
    "additionalProperties": False,
}
CASES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    # name: (schema, values that belong to its grammar, values that do not)
    "any object": ({"type": "object"}, [{}, {"a": [1, None, {"b": "c"}]}], [[], 1, None]),
    "anything": ({}, [1, "a", [True], {"a": 1.5}], []),
    "closed": (POINT, [{"x": 1}, {"x": 1.5, "y": -2}], [{}, {"y": 1}, {"x": 1, "z": 1}, {"x": "1"}]),
    "all optional": (
        {"properties": {"a": {"type": "null"}, "b": {"const": 1}, "c": {"type": "boolean"}}},
        [{}, {"a": None}, {"b": 1}, {"a": None, "c": True}, {"a": None, "b": 1, "c": False}],
        [{"a": 1}, {"b": 2}],
    ),
    "required in the middle": (
        {"type": "object", "properties": {"a": {}, "b": {"type": "integer"}, "c": {}}, "required": ["b"]},
        [{"b": 1}, {"a": 2, "b": 1}, {"b": 1, "c": [0]}],
        [{}, {"a": 1}, {"a": 1, "c": 1}],
    ),
    "required without a schema": (
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["z"]},
        [{"z": "x"}, {"a": 1, "z": None}],
        [{}, {"a": 1}],
    ),
    "map": (
        {"type": "object", "additionalProperties": {"type": "integer"}},
        [{}, {"k": 1, "l": 2}],
        [{"k": "v"}],
    ),
    "bounded map": (
        {
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "minProperties": 1,
            "maxProperties": 2,
        },
        [{"k": 1}, {"k": 1, "l": 2}],
        [{}, {"k": 1, "l": 2, "m": 3}],
    ),
    "open": (
        {
            "type": "object",
            "properties": {"ab": {"type": "integer"}, "a": {"type": "integer"}},
            "required": ["ab"],
        }
        | {"additionalProperties": {"type": "string"}},
        [{"ab": 1}, {"ab": 1, "a": 2, "abc": "x"}, {"ab": 1, "b": "x", "": "y"}],
        [{"ab": 1, "c": 1}, {"b": "x"}],
    ),
    "nothing inside": ({"type": "object", "additionalProperties": False}, [{}], [{"a": 1}]),
    "arrays": (
        {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "maxItems": 3},
        [[1], [1, 2, 3]],
        [[], [1, 2, 3, 4], [-1]],
    ),
    "long arrays": ({"type": "array", "items": {"type": "null"}, "minItems": 4}, [[None] * 4], [[None] * 3]),
    "no elements": ({"type": "array", "maxItems": 0}, [[]], [[1]]),
    "tuples": (
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "items": {"type": "null"},
        },
        [[], [1], [1, "a"], [1, "a", None, None]],
        [["a"], [1, 2], [1, "a", 3]],
    ),
    "closed tuples": (
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"const": "b"}],
            "items": False,
            "minItems": 1,
        },
        [[1], [1, "b"]],
        [[], [1, "b", 1]],
    ),
    "strings": ({"type": "string"}, ["", 'a "b" \\ \n é 😀 \u0001'], [1]),
    "bounded strings": ({"type": "string", "minLength": 2, "maxLength": 4}, ["ab", "x yz"], ["a", "abcde"]),
    "one bound": ({"type": "string", "minLength": 2}, ["ab" * 50], ["a"]),
    "patterns": ({"type": "string", "pattern": "^[A-Z]{2}-\\d+$"}, ["AB-12"], ["A-1", "AB-", "xAB-1"]),
    "patterns in the middle": ({"type": "string", "pattern": "b+"}, ["abc", "b", "  bb"], ["ac", ""]),
    "patterns with quotes": ({"type": "string", "pattern": '^"\\\\[\\n"]$'}, ['"\\\n', '"\\"'], ['"\\x']),
    "integers": (
        {"type": "integer", "minimum": -12, "maximum": 305},
        [-12, 0, 99, 305],
        [-13, 306, 1.5, "1"],
    ),
    "fractions of bounds": ({"type": "integer", "minimum": -1.5, "exclusiveMaximum": 2}, [-1, 1], [-2, 2]),
    "numbers": ({"type": "number", "exclusiveMinimum": 0, "maximum": 2.5}, [0.1, 2, 2.5], [0, 2.6, -1, 3]),
    "enum": ({"enum": ["a", 1, None, {"k": [1]}, 'q"\\']}, ["a", 1, None, 'q"\\'], ["b", 2]),
    "typed enum": ({"type": "string", "enum": ["a", 1]}, ["a"], [1]),
    "several types": ({"type": ["string", "null"], "maxLength": 2}, ["ab", None], ["abc", 1]),
    "no type": ({"minimum": 3}, [3, 4.5], [2]),
    "anyOf": ({"anyOf": [{"type": "integer"}, POINT]}, [1, {"x": 1}], ["a", {}]),
    "oneOf by type": ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, [1, "a"], [None]),
    "oneOf by constant": (
        {
            "oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}],
            "discriminator": {"propertyName": "kind"},
            "$defs": {
                kind: {
                    "type": "object",
                    "properties": {"kind": {"const": kind}, "age": {"type": "integer"}},
                    "required": ["kind"],
                }
                for kind in ("cat", "dog")
            },
        },
        [{"kind": "cat"}, {"kind": "dog", "age": 3}],
        [{"kind": "cow"}, {"age": 3}],
    ),
    "allOf of one": ({"allOf": [POINT], "description": "d"}, [{"x": 1}], [{}]),
    "references": (
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/a~1b"}, "c": {"$ref": "#/properties/a"}}}
        | {"$defs": {"a/b": {"$ref": "#/definitions/n"}}, "definitions": {"n": {"type": "integer"}}},
        [{"a": 1, "c": 2}],
        [{"a": "x"}],
    ),
    "recursion": (
        TREE,
        [{"name": "a"}, {"name": "a", "children": [{"name": "b", "children": []}]}],
        [{"children": []}, {"name": "a", "children": [{}]}],
    ),
    "annotations": (
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "t",
            "type": "integer",
            "default": 1,
            "examples": [2],
            "x-own": {"not": 1},
        },
        [5],
        ["a"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    schema, good, bad = CASES[name]
    grammar = bound("ebnf", schema_grammar(schema))
    written = [
        (value, layout) for value in good for layout in (_compact(value), _indented(value), json.dumps(value))
    ]
    assert [text for _, text in written if not accepts(grammar, text)] == []
    for value in good:
        jsonschema.validate(value, schema)
    assert [value for value in bad if accepts(grammar, _compact(value))] == []


@pytest.mark.parametrize("name", CASES)
def test_whatever_follows_the_grammar_is_valid(name: str) -> None:
    seed = seed_of_test()
    schema, grammar, draw = CASES[name][0], bound("ebnf", schema_grammar(CASES[name][0])), random.Random(seed)
    for _ in range(12):
        answer = walk(grammar, draw, patience=draw.randrange(60))
        jsonschema.validate(json.loads(answer), schema)
        assert answer.encode().decode() == answer


WORDS = (
    "type",
    "properties",
    "required",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "enum",
    "const",
    "anyOf",
)
WORDS += (
    "oneOf",
    "allOf",
    "$ref",
    "additionalProperties",
    "format",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
)
WORDS += ("exclusiveMinimum", "exclusiveMaximum", "minProperties", "maxProperties", "uniqueItems", "not")
ATOMS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    3.5,
    -0.5,
    10**20,
    1e308,
    "",
    "a",
    "string",
    "integer",
    "#",
)
ATOMS += (
    "object",
    "array",
    "date",
    [],
    {},
    ["a"],
    ["string", "null"],
    {"type": "integer"},
    [{"type": "string"}],
    [1, 2],
)


def _mutated(schema: Any, draw: random.Random) -> Any:
    """With some words changed, added or taken away, somewhere."""
    changed = copy.deepcopy(schema)
    for _ in range(draw.randrange(1, 4)):
        node = changed
        for _ in range(draw.randrange(5)):
            inner = [
                each
                for each in (node.values() if isinstance(node, dict) else node)
                if isinstance(each, dict | list)
            ]
            node = draw.choice(inner) if inner else node
        if isinstance(node, list):
            node.append(copy.deepcopy(draw.choice(ATOMS)))
        elif node and draw.random() < 0.2:
            del node[draw.choice(list(node))]
        else:
            node[draw.choice((*WORDS, *node))] = copy.deepcopy(draw.choice(ATOMS))
    return changed


def test_any_schema_is_kept_or_refused() -> None:
    seed = seed_of_test()
    draw, num_kept = random.Random(seed), 0
    plain = [
        schema for name, (schema, _, _) in CASES.items() if "pattern" not in name and name != "annotations"
    ]
    while num_kept < 40:
        schema = _mutated(draw.choice(plain), draw)
        try:
            written = schema_grammar(schema)
        except SchemaError:
            continue
        num_kept += 1
        answer = walk(bound("ebnf", written), draw, patience=draw.randrange(40))
        errors = list(jsonschema.Draft202012Validator(schema).iter_errors(json.loads(answer)))
        assert not errors, (schema, answer)


DEEP: dict[str, Any] = {"type": "integer"}
for _ in range(80):
    DEEP = {"type": "array", "items": DEEP}
REFUSED: dict[str, tuple[Any, str]] = {
    # name: (schema, place)
    "not": ({"not": {}}, "not"),
    "if": ({"type": "object", "properties": {"a": {"if": {}, "then": {}}}}, "properties.a.if"),
    "unique": ({"type": "array", "uniqueItems": True}, "uniqueItems"),
    "multiple": ({"type": "integer", "multipleOf": 5}, "multipleOf"),
    "pattern properties": ({"type": "object", "patternProperties": {"^x": {}}}, "patternProperties"),
    "property names": ({"type": "object", "propertyNames": {}}, "propertyNames"),
    "contains": ({"type": "array", "contains": {}}, "contains"),
    "dependencies": ({"dependentRequired": {"a": ["b"]}}, "dependentRequired"),
    "nullable": ({"type": "string", "nullable": True}, "nullable"),
    "unknown type": ({"type": "strin"}, "type"),
    "no type": ({"type": []}, "type"),
    "type of a type": ({"type": 5}, "type"),
    "empty enum": ({"enum": []}, "enum"),
    "enum of another type": ({"type": "integer", "enum": ["a"]}, ""),
    "enum with bounds": ({"type": "integer", "enum": [1, 2], "minimum": 2}, "minimum"),
    "two choices": ({"anyOf": [{}], "oneOf": [{}]}, "oneOf"),
    "choice with more": ({"anyOf": [{"required": ["a"]}], "properties": {"a": {}}}, "properties"),
    "typed choice": ({"type": "object", "anyOf": [POINT]}, "type"),
    "empty choice": ({"anyOf": []}, "anyOf"),
    "overlapping oneOf": ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "oneOf"),
    "open oneOf": (
        {"oneOf": [{"properties": {"k": {"const": 1}}}, {"properties": {"k": {"const": 2}}}]},
        "oneOf",
    ),
    "allOf of two": ({"allOf": [POINT, POINT]}, "allOf"),
    "reference with more": ({"$ref": "#/$defs/a", "minimum": 5, "$defs": {"a": {}}}, "minimum"),
    "missing": ({"items": {"$ref": "#/$defs/a"}}, "items.$ref"),
    "elsewhere": ({"$ref": "https://example.org/a.json"}, "$ref"),
    "anchors": ({"$ref": "#a", "$defs": {"a": {"$anchor": "a"}}}, "$ref"),
    "nothing but references": ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "$ref"),
    "endless": ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, ""),
    "endless branch": (
        {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/anyOf/1"}, "minItems": 1}]},
        "",
    ),
    "false": ({"type": "object", "properties": {"a": False}}, "properties.a"),
    "no schema": ({"properties": {"a": 5}}, "properties"),
    "required but forbidden": (
        {"type": "object", "required": ["a"], "additionalProperties": False},
        "required",
    ),
    "counted properties": (
        {"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 1},
        "minProperties",
    ),
    "bounded properties": (
        {"type": "object", "properties": {"a": {}, "b": {}}, "maxProperties": 1},
        "maxProperties",
    ),
    "two map entries": ({"type": "object", "minProperties": 2}, "minProperties"),
    "no such array": ({"type": "array", "minItems": 3, "maxItems": 2}, ""),
    "no such string": ({"type": "string", "minLength": 3, "maxLength": 2}, ""),
    "no such number": ({"type": "number", "minimum": 3, "maximum": 2}, ""),
    "no integer between": ({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 4}, ""),
    "text for a count": ({"type": "string", "maxLength": "2"}, "maxLength"),
    "negative": ({"type": "array", "minItems": -1}, "minItems"),
    "format": ({"type": "string", "format": "password"}, "format"),
    "format and length": ({"type": "string", "format": "date", "maxLength": 3}, ""),
    "pattern and length": ({"type": "string", "pattern": "^a$", "maxLength": 3}, ""),
    "look-ahead": ({"type": "string", "pattern": "^(?=a).*$"}, "pattern"),
    "deep": (DEEP, "items.items"),
    "wide": (
        {"anyOf": [{"type": "array", "prefixItems": [{"maxLength": 1}] * 1900, "items": False}] * 6},
        "",
    ),
    "many properties": ({"properties": {f"p{index}": {} for index in range(1001)}}, "properties"),
    "many values": ({"enum": list(range(2001))}, "enum"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_served_is_named(name: str) -> None:
    schema, place = REFUSED[name]
    with pytest.raises(SchemaError) as caught:
        schema_grammar(schema)
    assert ".".join(caught.value.path).startswith(place), caught.value.path
    assert str(caught.value)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _indented(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=4)
