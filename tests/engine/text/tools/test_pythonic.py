"""Python calls become JSON; what is no call of literals stays content."""

from __future__ import annotations

import ast
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.tools.pythonic import PYTHONIC
from tests.engine.text.tools.answers import parse_whole


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("'it'", "it"),
        (r'"a\n\x41\u00e4\U0001F642\q\'\""', "a\nAä🙂\\q'\""),
        ("'a\nb'", "a\nb"),
        ("'</tool>]'", "</tool>]"),
        ("-1_000", -1000),
        (".5e1", 5.0),
        ("[1, (2, 3), [], ()]", [1, [2, 3], [], []]),
        ("{'a': {\"b\": None}, }", {"a": {"b": None}}),
        ("[True, False, true, null,]", [True, False, True, None]),
    ],
)
def test_literals(literal: str, value: object) -> None:
    answer = parse_whole(PYTHONIC, f"[now(x = {literal} , y=1)]")
    assert answer.parsed == [("now", {"x": value, "y": 1})]
    assert answer.content == ""


@settings(max_examples=150, deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=12), st.sampled_from("'\""))
def test_strings_mean_what_python_means(text: str, quote: str) -> None:
    literal = quote + text.replace("\r", "").replace("\x00", "") + quote
    try:
        wanted = ast.literal_eval(literal)
    except (SyntaxError, ValueError):
        return
    if not isinstance(wanted, str) or any(word in literal for word in ("\\N", *(f"\\{n}" for n in range(8)))):
        return
    ((_, arguments),) = parse_whole(PYTHONIC, f"[now(x={literal})]").parsed
    assert arguments == {"x": wanted}


def test_a_lone_surrogate_stays_an_escape() -> None:
    ((_, arguments),) = parse_whole(PYTHONIC, r"[now(x='\ud800')]").calls
    assert arguments == r'{"x": "\ud800"}'
    assert json.loads(arguments) == {"x": "\ud800"}


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2, 3]",
        "[see](https://example.org)",
        "[other(a=1)]",
        "[now('x')]",
        "[now(]",
        "[]",
        "[now",
        "now()",
    ],
)
def test_no_call(text: str) -> None:
    answer = parse_whole(PYTHONIC, text)
    assert (answer.calls, answer.content) == ([], text)


@pytest.mark.parametrize("value", ["x", "1e999", "f'x'", "1 + 1", "1.2.3", "'\\x4g'", "[" * 40, "{1: 2}"])
def test_what_is_no_literal_breaks_the_call(value: str) -> None:
    answer = parse_whole(PYTHONIC, f"[now(a=1, x={value})]")
    assert answer.complete == [False]
    assert answer.calls[0][1].startswith('{"a": 1, "x": ')
    assert answer.content


def test_cut_short_in_a_number() -> None:
    answer = parse_whole(PYTHONIC, "[now(a=12")
    assert (answer.calls, answer.complete, answer.content) == ([("now", '{"a": 12')], [False], "")


def test_marked_calls_need_not_be_known() -> None:
    text = "<|python_start|>[other(a=1)]<|python_end|>"
    assert parse_whole(PYTHONIC, text).calls == [("other", '{"a": 1}')]
    assert parse_whole(PYTHONIC, f"Look: {text}").content == "Look:"
