"""What the tests of all formats share: texts of calls, broken in every way, and the events of a text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from engine.text.events import AnswerEvent, Arguments, CallEnded, CallStarted, Content, Reasoning
from engine.text.tools.parser import CallFormat, ToolParser

KNOWN = ("get_weather", "now", "files.search")

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
    | st.sampled_from(["}", "</tool_call>", "[TOOL_CALLS]", '"', "\\", "{", "a, b", "<think>"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab\"'", max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)
CALLS = st.lists(
    st.tuples(
        st.sampled_from(KNOWN),
        st.dictionaries(st.sampled_from(["city", "n", "x_1"]), JSON_VALUES, max_size=3),
    ),
    min_size=1,
    max_size=3,
)


@dataclass
class Answer:
    """All events of one answer, put together."""

    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """(name, arguments)"""
    complete: list[bool] = field(default_factory=list)
    order: list[str | int] = field(default_factory=list)
    """Texts of the content, and between them the calls' numbers."""

    def add(self, events: Sequence[AnswerEvent]) -> Answer:
        for event in events:
            match event:
                case Content(text):
                    self.content += text
                    before = self.order.pop() if self.order and isinstance(self.order[-1], str) else ""
                    self.order.append(f"{before}{text}")
                case Reasoning(text):
                    self.reasoning += text
                case CallStarted(index, name):
                    assert index == len(self.calls), "calls are numbered in order"
                    self.calls.append((name, ""))
                    self.order.append(index)
                case Arguments(index, text):
                    assert index == len(self.calls) - 1 == len(self.complete), (
                        "arguments belong to the open call"
                    )
                    assert text, "an empty fragment is no news"
                    self.calls[-1] = (self.calls[-1][0], self.calls[-1][1] + text)
                case CallEnded(index, complete):
                    assert index == len(self.complete) == len(self.calls) - 1, "a call ends once"
                    self.complete.append(complete)
        return self

    @property
    def parsed(self) -> list[tuple[str, Any]]:
        return [(name, json.loads(arguments)) for name, arguments in self.calls]


def pieces_of(text: str, cuts: Sequence[int]) -> list[str]:
    edges = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    return [text[start:end] for start, end in zip(edges, edges[1:], strict=False)]  # noqa: RUF007  # one list, twice


def parse(format_: CallFormat, pieces: Sequence[str], known: Sequence[str] = KNOWN) -> Answer:
    parser, answer = ToolParser(format_, known), Answer()
    for piece in pieces:
        answer.add(parser.push(piece))
    answer.add(parser.finish())
    assert len(answer.complete) == len(answer.calls), "every call has ended"
    assert all(answer.complete) or answer.complete.index(False) >= 0
    return answer


def parse_whole(format_: CallFormat, text: str, known: Sequence[str] = KNOWN) -> Answer:
    return parse(format_, [text], known)


def python_call(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def damaged(data: st.DataObject, text: str, *kinds: str) -> str:
    """Cut short, with a piece left out, doubled, or replaced by something hostile; or as it is."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    match data.draw(st.sampled_from(kinds or ["whole", "cut", "hole", "double", "foreign"])):
        case "cut":
            return text[:start]
        case "hole":
            return text[:start] + text[end:]
        case "double":
            return text[:end] + text[start:]
        case "foreign":
            foreign = [
                "\n",
                "}",
                '"',
                "{",
                "[",
                "<tool_call>",
                "[TOOL_CALLS]",
                "<",
                "\\u12",
                "</think>",
                " x ",
                "\x00",
            ]
            return text[:start] + data.draw(st.sampled_from(foreign)) + text[start:]
    return text
