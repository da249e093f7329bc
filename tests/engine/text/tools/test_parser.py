"""What holds for every format: any chunking gives the same answer, and no character is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.events import Arguments, CallEnded, CallStarted, Content
from engine.text.tools.formats import FORMATS
from engine.text.tools.json_calls import HERMES, LLAMA3_JSON, MISTRAL
from engine.text.tools.parser import CallFormat, ToolParser
from engine.text.tools.pythonic import PYTHONIC
from tests.engine.text.tools.answers import (
    CALLS,
    KNOWN,
    Answer,
    damaged,
    parse,
    parse_whole,
    pieces_of,
    python_call,
)

Calls = list[tuple[str, dict[str, Any]]]


def _object(key: str) -> Callable[[tuple[str, dict[str, Any]]], str]:
    return lambda call: json.dumps({"name": call[0], key: call[1]})


def hermes(calls: Calls) -> str:
    return "\n".join(f"<tool_call>\n{_object('arguments')(call)}\n</tool_call>" for call in calls)


def llama(calls: Calls) -> str:
    return "; ".join(map(_object("parameters"), calls))


def mistral(calls: Calls) -> str:
    return f"[TOOL_CALLS] [{', '.join(map(_object('arguments'), calls))}]"


def mistral_named(calls: Calls) -> str:
    return "".join(f"[TOOL_CALLS]{name}[ARGS]{json.dumps(arguments)}" for name, arguments in calls)


def pythonic(calls: Calls) -> str:
    return f"[{', '.join(python_call(*call) for call in calls)}]"


WRITERS: dict[str, tuple[CallFormat, Callable[[Calls], str]]] = {
    "hermes": (HERMES, hermes),
    "llama": (LLAMA3_JSON, llama),
    "llama_tag": (LLAMA3_JSON, lambda calls: f"<|python_tag|>{llama(calls)}"),
    "mistral": (MISTRAL, mistral),
    "mistral_named": (MISTRAL, mistral_named),
    "pythonic": (PYTHONIC, pythonic),
    "pythonic_start": (PYTHONIC, lambda calls: f"<|python_start|>{pythonic(calls)}<|python_end|>"),
}
BEFORE = ("", " \n", "Let me see. ")
BEHIND = ("", " \n", " That is it.", "\n\nSo: a < b \n", "Done <|", "\n x ] } y")
each_way = pytest.mark.parametrize("way", WRITERS)


@each_way
@settings(max_examples=70, deadline=None)
@given(data=st.data())
def test_any_chunking_gives_the_same_answer(way: str, data: st.DataObject) -> None:
    """Duty engine-9: a call's deltas, put together, do not depend on how its text arrived; valid, cut or malformed, and
    whatever stands before and behind."""
    format_, write = WRITERS[way]
    before, behind = data.draw(st.sampled_from(BEFORE)), data.draw(st.sampled_from(BEHIND))
    text = damaged(data, before + write(data.draw(CALLS)) + behind)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=12))
    whole = parse_whole(format_, text)
    assert parse(format_, pieces_of(text, cuts)) == whole
    assert parse(format_, list(text)) == whole


@each_way
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_text_behind_calls_comes_behind_them(way: str, data: st.DataObject) -> None:
    """Of an answer with text around its calls nothing is lost but blanks at the calls, in whatever pieces it came."""
    format_, write = WRITERS[way]
    calls, behind = data.draw(CALLS), data.draw(st.sampled_from(BEHIND))
    text = write(calls) + behind
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=12))
    for pieces in ([text], list(text), pieces_of(text, cuts)):
        answer = parse(format_, pieces)
        assert answer.parsed == calls
        assert answer.order == [*range(len(calls)), *filter(None, [behind.lstrip()])]


@each_way
@settings(max_examples=40, deadline=None)
@given(calls=CALLS)
def test_calls_arrive_as_they_were_written(way: str, calls: Calls) -> None:
    format_, write = WRITERS[way]
    answer = parse_whole(format_, write(calls))
    assert answer.parsed == calls
    assert answer.content == ""
    assert all(answer.complete)


@each_way
@settings(max_examples=70, deadline=None)
@given(data=st.data())
def test_malformed_text_loses_nothing(way: str, data: st.DataObject) -> None:
    """Without a call, the answer is its text; with one, all that follows the arguments is content or markup."""
    format_, write = WRITERS[way]
    text = damaged(data, write(data.draw(CALLS)))
    answer = parse_whole(format_, text)
    if not answer.calls:
        assert answer.content == text
    rest = iter(text)
    assert all(char in rest for char in answer.content), "content comes from the text, in its order"


@each_way
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_cut_text_loses_no_argument(way: str, data: st.DataObject) -> None:
    """Of a call that has begun, all that was written of its arguments is there."""
    format_, write = WRITERS[way]
    calls = data.draw(CALLS)
    text = damaged(data, write(calls), "cut")
    answer, whole = parse_whole(format_, text), parse_whole(format_, write(calls))
    assert len(answer.calls) <= len(whole.calls)
    for (name, arguments), (_, all_arguments), complete in zip(
        answer.calls, whole.calls, answer.complete, strict=False
    ):
        assert all_arguments.startswith(arguments)
        assert complete == (arguments == all_arguments), name
    if format_ is not PYTHONIC and answer.calls and not answer.complete[-1]:
        assert text.endswith(answer.calls[-1][1])


@each_way
def test_content_passes_at_once(way: str) -> None:
    parser = ToolParser(WRITERS[way][0], KNOWN)
    assert parser.push("The <b>sea</b> f[0] is") == [Content("The <b>sea</b> f[0] is")]
    assert parser.push(" wide") == [Content(" wide")]
    assert parser.finish() == []


def test_arguments_pass_letter_by_letter() -> None:
    parser = ToolParser(HERMES, KNOWN)
    assert parser.push('<tool_call>{"name": "now", "arguments": ') == []
    assert parser.push('{"ci') == [CallStarted(0, "now"), Arguments(0, '{"ci')]
    assert parser.push('ty": "Kiel"') == [Arguments(0, 'ty": "Kiel"')]
    assert parser.push("}}\n</tool_") == [Arguments(0, "}"), CallEnded(0, True)]
    assert parser.push("call>") == parser.finish() == []
    assert parser.num_calls == 1


def test_blanks_beside_a_call_are_dropped_and_others_kept() -> None:
    call = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    assert parse_whole(HERMES, f"\n\n{call}\n").content == ""
    assert parse_whole(HERMES, f" a  b \n{call}\n{call}\n c \n").content == " a  bc \n"
    assert parse_whole(HERMES, "\n x \n").content == "\n x \n"
    assert parse_whole(HERMES, "\n<tool_call> x").content == "\n<tool_call> x"


def test_a_broken_call_ends_where_it_breaks() -> None:
    answer = parse_whole(HERMES, '<tool_call>{"name": "now", "arguments": {"a": oops}}</tool_call>')
    assert answer.calls == [("now", '{"a": ')]
    assert answer.complete == [False]
    assert answer.content == "oops}}</tool_call>"


def test_a_call_behind_a_broken_one_is_found() -> None:
    good = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    for broken in (
        "<tool_call> ",
        '<tool_call>{"name": ',
        "<tool_<",
        '<tool_call>{"name": "now", "arguments": {}}',
    ):
        answer = parse_whole(HERMES, broken + good)
        assert answer.calls[-1] == ("now", "{}")
        assert answer.complete[-1]


def test_what_is_undecided_has_a_bound() -> None:
    text = '<tool_call>{"arguments": {"a": "' + "x" * 70_000
    parser, shown = ToolParser(HERMES, KNOWN), ""
    for start in range(0, len(text), 1000):
        shown += "".join(
            event.text for event in parser.push(text[start : start + 1000]) if isinstance(event, Content)
        )
    assert len(shown) > 60_000, "what cannot be a call any more is shown before the end"
    assert parse_whole(HERMES, text).content == text == shown


@each_way
def test_long_arguments_are_passed_on(way: str) -> None:
    format_, write = WRITERS[way]
    calls: Calls = [("now", {"city": "x" * 100_000, "n": list(range(20_000))})]
    assert parse_whole(format_, write(calls)).parsed == calls


def test_deep_nesting_does_not_matter() -> None:
    deep = '{"a":' * 20_000 + "1" + "}" * 20_000
    answer = parse_whole(HERMES, f'<tool_call>{{"name": "now", "arguments": {deep}}}</tool_call>')
    assert answer.calls == [("now", deep)]


def test_every_format_is_tried_here() -> None:
    assert {format_.name for format_, _ in WRITERS.values()} == set(FORMATS)


SOUP = (
    *(
        "<tool_call>",
        "</tool_call>",
        "[TOOL_CALLS]",
        "[ARGS]",
        "<|python_tag|>",
        "<|python_start|>",
        "<|python_end|>",
    ),
    *(
        '{"name": "now"',
        '"arguments": ',
        '"parameters": {',
        "now(",
        "x=",
        '"',
        "'",
        "\\",
        "\\u",
        "d800",
        "\\x4",
        "{}",
    ),
    *(
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        ",",
        ":",
        ";",
        " ",
        "\n",
        "1",
        "-",
        "1e",
        "nul",
        "null",
        "True",
        "ü",
        "😀",
        "<",
    ),
)


@each_way
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_text_is_read_somehow(way: str, data: st.DataObject) -> None:
    """Whatever a model writes: no failure, the same for every chunking, and nothing that could not be sent."""
    format_ = WRITERS[way][0]
    text = "".join(data.draw(st.lists(st.sampled_from(SOUP), max_size=25)))
    whole = parse_whole(format_, text)
    assert parse(format_, list(text)) == whole
    for shown in (whole.content, *(name + arguments for name, arguments in whole.calls)):
        shown.encode()
    assert all(isinstance(arguments, dict) for _, arguments in _complete(whole))


def _complete(answer: Answer) -> list[tuple[str, object]]:
    return [
        (name, json.loads(arguments))
        for (name, arguments), complete in zip(answer.calls, answer.complete, strict=True)
        if complete
    ]
