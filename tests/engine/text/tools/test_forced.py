"""Structural tags accept what their format's parser reads, follow the schemas, and leave the reasoning free."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import xgrammar

from engine.text.answer import AnswerFormat
from engine.text.reasoning import Start
from engine.text.schema import regex_grammar, schema_grammar
from engine.text.tools.forced import Forced, FunctionSchemaError, forced_calls
from engine.text.tools.formats import FORMATS
from engine.text.tools.json_calls import HERMES, LLAMA3_JSON, MISTRAL, MISTRAL_ARGS
from engine.text.tools.parser import CallFormat
from engine.text.tools.pythonic import PYTHONIC
from tests.engine.text.tools.answers import parse_whole

SCHEMA = {
    "type": "object",
    "properties": {"city": {"$ref": "#/$defs/City"}, "days": {"type": "integer"}, "now": {"type": "boolean"}},
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"City": {"type": "string", "maxLength": 20}},
}
CALLS: dict[str, tuple[CallFormat, Callable[[str], str]]] = {
    "hermes": (HERMES, '<tool_call>\n{{"name": "get_weather", "arguments": {}}}\n</tool_call>'.format),
    "llama": (LLAMA3_JSON, '{{"name": "get_weather", "parameters": {}}}'.format),
    "mistral": (MISTRAL, '[TOOL_CALLS] [{{"name": "get_weather", "arguments": {}}}]'.format),
    "mistral_args": (MISTRAL_ARGS, "[TOOL_CALLS]get_weather[ARGS]{}".format),
    "pythonic": (PYTHONIC, "[get_weather({})]".format),
}
GOOD, BAD, FOREIGN = '{"city": "Kiel", "days": 3}', '{"days": 3}', '{"city": "Kiel", "x": 1}'
KEYWORDS = {GOOD: 'city="Kiel", days=3', BAD: "days=3", FOREIGN: 'city="Kiel", x=1'}
each = pytest.mark.parametrize("name", CALLS)


@pytest.fixture(scope="module")
def compiler() -> xgrammar.GrammarCompiler:
    vocabulary = [bytes([value]) for value in range(256)] + [b""]
    info = xgrammar.TokenizerInfo(vocabulary, xgrammar.VocabType.RAW, stop_token_ids=[256])
    return xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)


def accepts(compiler: xgrammar.GrammarCompiler, tag: str | None, text: str) -> bool:
    """Whether the whole text is an answer."""
    assert tag is not None
    matcher = xgrammar.GrammarMatcher(compiler.compile_structural_tag(tag))
    return bool(matcher.accept_string(text) and matcher.is_completed())


def tag(
    format_: CallFormat, reasoning: Start | None = None, content: Any = None, **changes: Any
) -> str | None:
    demands: dict[str, Any] = {
        "schemas": {"get_weather": SCHEMA},
        "is_must": True,
        "parallel": True,
        "is_strict": False,
        **changes,
    }
    return forced_calls(AnswerFormat(calls=format_, reasoning=reasoning), Forced(**demands), content)


def call(name: str, arguments: str) -> str:
    return CALLS[name][1](KEYWORDS[arguments] if name == "pythonic" else arguments)


@each
def test_forced_calls_follow_the_schema_and_can_be_read(
    compiler: xgrammar.GrammarCompiler, name: str
) -> None:
    forced = tag(CALLS[name][0])
    assert accepts(compiler, forced, call(name, GOOD))
    assert parse_whole(CALLS[name][0], call(name, GOOD)).parsed == [("get_weather", json.loads(GOOD))]
    for wrong in (call(name, BAD), call(name, FOREIGN), "", "Hello", call(name, GOOD)[:-1]):
        assert not accepts(compiler, forced, wrong), wrong


@each
def test_one_call_or_several(compiler: xgrammar.GrammarCompiler, name: str) -> None:
    format_ = CALLS[name][0]
    one = call(name, GOOD)
    inner = one.removeprefix("[TOOL_CALLS] ").strip("[]") if name in ("mistral", "pythonic") else one
    between = {"hermes": "\n", "llama": "; ", "mistral_args": ""}.get(name, ", ")
    two = one.replace(inner, inner + between + inner) if inner != one else one + between + one
    assert len(parse_whole(format_, two).calls) == 2
    assert accepts(compiler, tag(format_), two)
    assert not accepts(compiler, tag(format_, parallel=False), two)
    assert accepts(compiler, tag(format_, parallel=False), one)


@each
def test_a_function_without_schema_takes_any_object(compiler: xgrammar.GrammarCompiler, name: str) -> None:
    forced = tag(CALLS[name][0], schemas={"get_weather": None})
    empty = CALLS[name][1]("" if name == "pythonic" else "{}")
    assert accepts(compiler, forced, empty)
    assert accepts(compiler, forced, call(name, FOREIGN)) == (name != "pythonic")


@each
def test_strict_functions_are_strict_only_when_called(compiler: xgrammar.GrammarCompiler, name: str) -> None:
    strict = tag(CALLS[name][0], is_must=False, is_strict=True)
    for right in ("Hello [1] {2} <b>", " \n", call(name, GOOD)):
        assert accepts(compiler, strict, right), right
    assert not accepts(compiler, strict, call(name, BAD))


@each
def test_reasoning_stays_free(compiler: xgrammar.GrammarCompiler, name: str) -> None:
    one = call(name, GOOD)
    opened = tag(CALLS[name][0], Start.REASONING)
    assert accepts(compiler, opened, f"Hm {call(name, BAD)}.\n</think>\n\n{one}")
    assert not accepts(compiler, opened, one)
    undecided = tag(CALLS[name][0], Start.UNDECIDED)
    assert accepts(compiler, undecided, f"<think>\nHm.\n</think>\n\n{one}")
    assert accepts(compiler, undecided, one)
    assert not accepts(compiler, undecided, f"Hm.\n</think>\n\n{one}")
    closed = tag(CALLS[name][0], Start.CONTENT)
    assert accepts(compiler, closed, one)
    assert not accepts(compiler, closed, f"<think></think>{one}")


@pytest.mark.parametrize(
    ("content", "right", "wrong"),
    [
        (("ebnf", schema_grammar({"type": "object"})), '{"a": 1}', "a"),
        (("ebnf", regex_grammar("a+")), "aa", "ab"),
        (("choice", '["yes", "no \\"x\\""]'), 'no "x"', "maybe"),
        (("ebnf", 'root ::= "x" root | "y"'), "xxy", "xx"),
    ],
)
def test_content_with_a_grammar(
    compiler: xgrammar.GrammarCompiler, content: tuple[str, str], right: str, wrong: str
) -> None:
    either = tag(HERMES, content=content, is_must=False)
    for text in (right, call("hermes", GOOD)):
        assert accepts(compiler, either, text)
    assert not accepts(compiler, either, wrong)
    assert not accepts(compiler, tag(HERMES, content=content), right), "a call was demanded"
    thinking = forced_calls(AnswerFormat(reasoning=Start.REASONING), None, content)
    assert accepts(compiler, thinking, f"Hm.</think>\n{right}")
    assert not accepts(compiler, thinking, right)


def test_nothing_to_demand() -> None:
    plain = AnswerFormat(calls=HERMES, reasoning=Start.UNDECIDED)
    assert forced_calls(plain, None) is None
    assert tag(HERMES, is_must=False) is None
    assert forced_calls(AnswerFormat(reasoning=Start.CONTENT), None, ("choice", '["a"]')) is None


def test_python_keywords(compiler: xgrammar.GrammarCompiler) -> None:
    optional = {"properties": {"a": {"type": "integer"}, "b": {"enum": ["x/y"]}, "c": True}}
    forced = tag(PYTHONIC, schemas={"f": optional})
    for arguments in ("", "a=1", 'b="x/y"', 'a=1, b="x/y", c=[null]', "c=1"):
        assert accepts(compiler, forced, f"[f({arguments})]"), arguments
    for arguments in ('b="x/y", a=1', "d=1", "a=1,"):
        assert not accepts(compiler, forced, f"[f({arguments})]"), arguments


@each
def test_schemas_that_are_not_served_are_named(name: str) -> None:
    wrong = {"type": "object", "properties": {"a": {"type": "strange"}}}
    with pytest.raises(FunctionSchemaError) as caught:
        tag(CALLS[name][0], schemas={"get_weather": SCHEMA, "other": wrong})
    assert (caught.value.function, caught.value.path[:2]) == ("other", ("properties", "a"))


def test_python_has_names_that_it_cannot_say() -> None:
    with pytest.raises(FunctionSchemaError, match="no name of an argument"):
        tag(PYTHONIC, schemas={"f": {"properties": {"a b": True}}})
    assert tag(PYTHONIC, schemas={"f": {"properties": {"a b": False}}})


def test_every_format_can_be_forced() -> None:
    assert {format_.name for format_, _ in CALLS.values()} == set(FORMATS)
