"""Reasoning is split off whoever opens it, and whatever the chunking."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.reasoning import ReasoningSplitter, Start, choose_parser, start_of


def split(start: Start, pieces: list[str]) -> tuple[str, str]:
    splitter = ReasoningSplitter(start)
    parts = [*map(splitter.push, pieces), splitter.finish()]
    return "".join(reasoning for reasoning, _ in parts), "".join(content for _, content in parts)


@pytest.mark.parametrize(
    ("start", "text", "expected"),
    [
        (Start.UNDECIDED, "<think>\nWell\n\nso\n</think>\n\nHi\n", ("Well\n\nso", "Hi\n")),
        (Start.UNDECIDED, " \n<think>x</think>y", ("x", "y")),
        (Start.UNDECIDED, "\n Hi <think>x</think>", ("", "\n Hi <think>x</think>")),
        (Start.UNDECIDED, "<thin", ("", "<thin")),
        (Start.UNDECIDED, "<think>x", ("x", "")),
        (Start.UNDECIDED, "<think>\n</think>  code", ("", "  code")),
        (Start.REASONING, "\nWell</think>\nHi", ("Well", "Hi")),
        (Start.REASONING, "<think>\nWell</think>Hi", ("Well", "Hi")),
        (Start.REASONING, "Well\n</thi", ("Well\n</thi", "")),
        (Start.REASONING, "a</think>b</think>c<think>", ("a", "b</think>c<think>")),
        (Start.CONTENT, "<think>x</think>", ("", "<think>x</think>")),
    ],
)
def test_split(start: Start, text: str, expected: tuple[str, str]) -> None:
    assert split(start, [text]) == split(start, list(text)) == expected


@settings(max_examples=150, deadline=None)
@given(
    start=st.sampled_from(list(Start)),
    pieces=st.lists(
        st.sampled_from(["<think>", "</think>", "<", "</th", "\n", " ", "a", "think>", "</"]), max_size=9
    ),
    data=st.data(),
)
def test_chunking_does_not_matter(start: Start, pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    edges = [0, *cuts, len(text)]
    cut = [text[a:b] for a, b in zip(edges, edges[1:], strict=False)]  # noqa: RUF007  # one list, twice
    whole = split(start, [text])
    assert split(start, pieces) == split(start, cut) == split(start, list(text)) == whole
    shown, written = "".join("".join(whole).split()), "".join(text.split())
    assert len(written) - len(shown) in (0, len("<think>"), len("</think>"), len("<think></think>"))
    rest = iter(written)
    assert all(char in rest for char in shown), "in the order of the text"


def test_reasoning_is_not_held_back() -> None:
    splitter = ReasoningSplitter(Start.REASONING)
    assert splitter.push("We think") == ("We think", "")
    assert splitter.push(".\n") == (".", "")
    assert splitter.push("So") == ("\nSo", "")
    assert splitter.inside
    assert splitter.push("</think>") == ("", "")
    assert not splitter.inside


@pytest.mark.parametrize(
    ("parser", "prompt", "start"),
    [
        ("qwen3", "<|im_start|>assistant\n<think>\n", Start.REASONING),
        ("qwen3", "<|im_start|>assistant\n<think>\n\n</think>\n\n", Start.CONTENT),
        ("qwen3", "<|im_start|>assistant\n", Start.UNDECIDED),
        ("deepseek_r1", "<|Assistant|>", Start.REASONING),
        ("deepseek_r1", "<|Assistant|></think>", Start.CONTENT),
    ],
)
def test_the_prompt_tells_where_an_answer_begins(parser: str, prompt: str, start: Start) -> None:
    assert start_of(parser, prompt) is start


def test_parser_by_name_or_by_template() -> None:
    reasons = "{{ '<think>\\n\\n</think>' }}"
    assert choose_parser("auto", reasons) == "qwen3"
    assert choose_parser("auto", "{{ messages }}") is None
    assert choose_parser("auto", "{{ content.split('</think>')[-1] }}") == "deepseek_r1"
    assert choose_parser("deepseek_r1", "") == "deepseek_r1"
    assert choose_parser("none", reasons) is None
