"""Objects: every order and omission that a schema allows, and no other."""

from __future__ import annotations

import itertools
import json

import pytest

from engine.text.schema import SchemaError, schema_grammar
from engine.text.schema.objects import MAX_NAMED_CHARS, MAX_OPTIONAL, MAX_PROPERTIES
from tests.grammars import accepts, bound


def test_all_subsets_of_properties() -> None:
    for required in ([], ["b"], ["a", "d"], ["a", "b", "c", "d"]):
        schema = {
            "type": "object",
            "properties": {name: {"const": 1} for name in "abcd"},
            "required": required,
        }
        grammar = bound("ebnf", schema_grammar(schema))
        for size in range(5):
            for names in itertools.permutations("abcd", size):
                text = json.dumps(dict.fromkeys(names, 1))
                expected = list(names) == sorted(names) and set(required) <= set(names)
                assert accepts(grammar, text) == expected, (required, names)


@pytest.mark.parametrize("name", ["", 'q"', "back\\", "new\nline", "é", "a b", "[x]"])
def test_names_of_all_kinds(name: str) -> None:
    grammar = bound("ebnf", schema_grammar({"properties": {name: {"const": 1}}, "required": [name]}))
    assert accepts(grammar, json.dumps({name: 1}, ensure_ascii=False))


@pytest.mark.parametrize("names", [("a",), ("", "a", "ab"), ("abc", "abd", "x"), ('q"', "q")])
def test_other_names_are_other_names(names: tuple[str, ...]) -> None:
    schema = {"properties": {key: {"const": 1} for key in names}, "additionalProperties": {"const": 2}}
    grammar = bound("ebnf", schema_grammar(schema))
    for name in {*names, "b", "abe", "aa", "xx", "é", ""}:
        assert accepts(grammar, json.dumps({name: 1}, ensure_ascii=False)) == (name in names), name
        expected = name not in names and '"' not in name
        assert accepts(grammar, json.dumps({name: 2}, ensure_ascii=False)) == expected, name
    both = json.dumps({**dict.fromkeys(names, 1), "other": 2}, ensure_ascii=False)
    assert accepts(grammar, both)
    assert not accepts(grammar, '{"\\u0061": 2}'), "no name in disguise"


def test_limits() -> None:
    for count, required in ((MAX_PROPERTIES + 1, True), (MAX_OPTIONAL + 1, False)):
        names = [f"p{index}" for index in range(count)]
        with pytest.raises(SchemaError, match="at most"):
            schema_grammar({"properties": {key: {} for key in names}, "required": names if required else []})
    with pytest.raises(SchemaError, match="told apart"):
        schema_grammar({"properties": {"n" * (MAX_NAMED_CHARS + 1): {}}, "additionalProperties": True})
