"""Reasoning first, then content and calls, in any chunking; nothing behind the last allowed call."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.answer import AnswerFormat, AnswerParser
from engine.text.reasoning import Start
from engine.text.tools.json_calls import HERMES
from tests.engine.text.tools.answers import KNOWN, Answer, damaged, pieces_of

CALL = '<tool_call>\n{"name": "now", "arguments": {"city": "Kiel"}}\n</tool_call>'
FORMAT = AnswerFormat(reasoning=Start.UNDECIDED, calls=HERMES, functions=frozenset(KNOWN))
ONE = AnswerFormat(reasoning=Start.UNDECIDED, calls=HERMES, functions=frozenset(KNOWN), max_calls=1)


def parse(format_: AnswerFormat, pieces: list[str]) -> Answer:
    parser, answer = AnswerParser(format_), Answer()
    for piece in pieces:
        if not parser.satisfied:
            answer.add(parser.push(piece))
    return answer.add(parser.finish())


def test_reasoning_content_and_calls() -> None:
    answer = parse(FORMAT, [f"<think>\nHm <tool_call>.\n</think>\n\nI look.\n{CALL}\n{CALL}"])
    assert (answer.reasoning, answer.content) == ("Hm <tool_call>.", "I look.")
    assert answer.calls == [("now", '{"city": "Kiel"}')] * 2


def test_one_call_and_nothing_behind_it() -> None:
    for pieces in ([f"a{CALL}b{CALL}"], list(f"a{CALL}b{CALL}")):
        answer = parse(ONE, pieces)
        assert (answer.content, answer.calls) == ("a", [("now", '{"city": "Kiel"}')])


def test_without_tools_or_reasoning_text_is_content() -> None:
    text = f"<think>x</think>{CALL}"
    assert parse(AnswerFormat(), [text]).content == text
    assert parse(AnswerFormat(calls=HERMES), ["<think>x</think>y"]).content == "<think>x</think>y"
    assert parse(AnswerFormat(reasoning=Start.UNDECIDED), [text]).content == CALL


def test_cut_short_in_the_reasoning() -> None:
    answer = parse(FORMAT, ["<think>Hm", " </thi"])
    assert (answer.reasoning, answer.content, answer.calls) == ("Hm </thi", "", [])


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_chunking_does_not_matter(data: st.DataObject) -> None:
    """Duty engine-9: reasoning and calls of one answer, together."""
    text = damaged(data, f"<think>\nHm.\n</think>\n\nI look.\n{CALL}\n{CALL}")
    format_ = data.draw(st.sampled_from([FORMAT, ONE]))
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    assert parse(format_, pieces_of(text, cuts)) == parse(format_, [text]) == parse(format_, list(text))
