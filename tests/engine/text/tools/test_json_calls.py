"""Hermes, Llama 3 and Mistral: what each of them takes for a call, and what not."""

from __future__ import annotations

import pytest

from engine.text.tools.json_calls import HERMES, LLAMA3_JSON, MISTRAL
from engine.text.tools.parser import CallFormat
from tests.engine.text.tools.answers import parse_whole


def hermes(inner: str) -> str:
    return f"<tool_call>{inner}</tool_call>"


@pytest.mark.parametrize(
    ("inner", "arguments"),
    [
        ('{"name": "f", "arguments": {"a": 1}}', '{"a": 1}'),
        ('{"name":"f","parameters":{}}', "{}"),
        ('{"name": "f"}', "{}"),
        ('{"arguments": {"a": [1]}, "name": "f"}', '{"a": [1]}'),
        ('{"name": "f", "arguments": null}', "{}"),
        ('{"name": "f", "arguments": "{\\"a\\": 1}"}', '{"a": 1}'),
        ('{"id": {"x": [1]}, "name": "f", "arguments": {}, "type": "function"}', "{}"),
        ('{"name": "f", "arguments": {"x": "</tool_call>"}}', '{"x": "</tool_call>"}'),
    ],
)
def test_hermes_takes_every_order_of_members(inner: str, arguments: str) -> None:
    answer = parse_whole(HERMES, hermes(inner))
    assert (answer.calls, answer.complete, answer.content) == ([("f", arguments)], [True], "")


@pytest.mark.parametrize(
    "inner",
    [
        "{}",
        '{"arguments": {}}',
        '{"name": 5, "arguments": {}}',
        '{"name": "", "arguments": {}}',
        '{"name": "a\\nb"}',
        '{"name": "\\ud800"}',
        '{"name": "f", "arguments": [1]}',
        '{"name": "f", "arguments": "no"}',
        '{"name": "f", "arguments": "{\\"a\\": \\"\\ud800\\"}"}',
        '["f"]',
        "f()",
    ],
)
def test_hermes_leaves_the_rest_to_the_content(inner: str) -> None:
    answer = parse_whole(HERMES, hermes(inner))
    assert (answer.calls, answer.content) == ([], hermes(inner))


def test_hermes_calls_functions_that_it_does_not_know() -> None:
    assert parse_whole(HERMES, hermes('{"name": "other"}'), known=[]).calls == [("other", "{}")]


def test_an_answer_in_json_is_no_call() -> None:
    for text in (
        '{"name": "Bob", "age": 3}',
        '{"name": "Bob", "parameters": {}}',
        '{"name": "now"}',
        "{",
        "{}",
    ):
        answer = parse_whole(LLAMA3_JSON, text)
        assert (answer.calls, answer.content) == ([], text)


def test_llama_calls_only_at_the_beginning_or_behind_its_tag() -> None:
    call = '{"name": "now", "parameters": {}}'
    assert parse_whole(LLAMA3_JSON, f" {call}").calls == [("now", "{}")]
    assert parse_whole(LLAMA3_JSON, f"Like so: {call}").content == f"Like so: {call}"
    tagged = parse_whole(LLAMA3_JSON, f"I look. <|python_tag|>{call}")
    assert (tagged.content, tagged.calls) == ("I look.", [("now", "{}")])
    code = "<|python_tag|>print(1)"
    assert parse_whole(LLAMA3_JSON, code).content == code


@pytest.mark.parametrize("between", ["; ", ";", ", ", "\n", ""])
def test_llama_calls_several_ways(between: str) -> None:
    calls = [f'{{"name": "now", "parameters": {{"n": {n}}}}}' for n in range(3)]
    answer = parse_whole(LLAMA3_JSON, between.join(calls))
    assert [arguments["n"] for _, arguments in answer.parsed] == [0, 1, 2]
    assert answer.content == ""
    assert parse_whole(LLAMA3_JSON, f"{calls[0]}; and more").content == "; and more"
    broken = parse_whole(LLAMA3_JSON, calls[0] + between + '{"a": 1}')
    assert (len(broken.calls), broken.content) == (1, between.lstrip() + '{"a": 1}')


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}, "id": "abcdefghi"}]', [("f", '{"a": 1}')]),
        ('[TOOL_CALLS] [{"name": "f", "arguments": {}} , {"name": "g"}]', [("f", "{}"), ("g", "{}")]),
        ('[TOOL_CALLS]f[ARGS]{"a": 1}', [("f", '{"a": 1}')]),
        ('[TOOL_CALLS]f{"a": 1}', [("f", '{"a": 1}')]),
        (
            '[TOOL_CALLS]f[CALL_ID]abc123def[ARGS]{}[TOOL_CALLS]g[ARGS]{"b": "]"}',
            [("f", "{}"), ("g", '{"b": "]"}')],
        ),
    ],
)
def test_mistral_old_and_new(text: str, calls: list[tuple[str, str]]) -> None:
    answer = parse_whole(MISTRAL, f"Well. {text}")
    assert (answer.calls, answer.content) == (calls, "Well.")


def test_mistral_without_arguments_is_content() -> None:
    for text in (
        "[TOOL_CALLS]",
        "[TOOL_CALLS]f",
        "[TOOL_CALLS]f[ARGS]",
        "[TOOL_CALLS]f[ARGS]5",
        "[TOOL_CALLS][1]",
    ):
        assert parse_whole(MISTRAL, text).content == text


def test_mistrals_list_needs_its_commas() -> None:
    """What stands behind a call without one is no call, and not lost."""
    one, two = ('{"name": "f", "arguments": {}}', '{"name": "g", "arguments": {}}')
    broken = parse_whole(MISTRAL, f"[TOOL_CALLS][{one}{two}]")
    assert broken.calls == [("f", "{}")]
    assert broken.content == f"{two}]"
    assert parse_whole(MISTRAL, f"[TOOL_CALLS][{one}, {two}]").calls == [("f", "{}"), ("g", "{}")]


@pytest.mark.parametrize("format_", [HERMES, LLAMA3_JSON, MISTRAL])
def test_markers_are_shown_though_special(format_: CallFormat) -> None:
    assert set(format_.markers) <= set(format_.special_tokens)
