"""From the text of one answer to what it is: reasoning first, then content and tool calls.

Sits between the stop strings and the server's deltas. Built anew for every answer from a frozen `AnswerFormat`, and
pure, so that an answer can be replayed. Knows no JSON of any API.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.text.events import AnswerEvent, CallEnded, Content, Reasoning
from engine.text.reasoning import CLOSE, OPEN, ReasoningSplitter, Start
from engine.text.tools.formats import FORMATS
from engine.text.tools.parser import CallFormat, ToolParser

MARKERS = frozenset({OPEN, CLOSE}.union(*(format_.special_tokens for format_ in FORMATS.values())))
"""Texts of tokens, special or not, that mean something to a parser."""


class TokenIds(Protocol):
    """The part of a tokenizer that is needed to find tokens by their text."""

    def token_id(self, token: str) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFormat:
    """How the answers of one request are to be read."""

    reasoning: Start | None = None
    """Where they begin; None: reasoning is not told apart."""
    calls: CallFormat | None = None
    """None: text that looks like a call is content."""
    functions: frozenset[str] = frozenset()
    """Names of the functions that may be called."""
    max_calls: int | None = None
    """An answer ends with its last allowed call."""
    finish_reason: str = "tool_calls"
    """Of an answer that ends by itself after a call."""


def shown_token_ids(vocabulary: TokenIds, format_: AnswerFormat | None) -> frozenset[int]:
    """Tokens that the parsers need to see as text, special or not."""
    if format_ is None:
        return frozenset()
    names = [*(format_.calls.special_tokens if format_.calls is not None else ())]
    if format_.reasoning is not None:
        names += [OPEN, CLOSE]
    ids = map(vocabulary.token_id, names)
    return frozenset(index for index in ids if index is not None)


class AnswerParser:
    """One answer's. Feed it the text in any pieces, then `finish`."""

    __slots__ = ("_max_calls", "_splitter", "_tools", "satisfied")

    def __init__(self, format_: AnswerFormat) -> None:
        self._splitter = None if format_.reasoning is None else ReasoningSplitter(format_.reasoning)
        self._tools = None if format_.calls is None else ToolParser(format_.calls, format_.functions)
        self._max_calls = format_.max_calls
        self.satisfied = False
        """All the calls that are allowed were made: nothing may follow."""

    @property
    def is_reasoning(self) -> bool:
        return self._splitter is not None and self._splitter.inside

    @property
    def called(self) -> bool:
        """Whether there are calls, and none was cut short."""
        return self._tools is not None and self._tools.num_calls > 0 and not self._tools.broken

    def push(self, text: str) -> list[AnswerEvent]:
        """Not after it is satisfied."""
        reasoning, content = ("", text) if self._splitter is None else self._splitter.push(text)
        return self._events(reasoning, self._read(content))

    def finish(self) -> list[AnswerEvent]:
        """What was held back, and the end of a call that was cut short."""
        reasoning, content = ("", "") if self._splitter is None else self._splitter.finish()
        events = self._read(content)
        if self._tools is not None and not self.satisfied:
            events += self._up_to_last_call(list(self._tools.finish()))
        return self._events(reasoning, events)

    def _read(self, content: str) -> list[AnswerEvent]:
        if self._tools is None:
            return [Content(content)] if content else []
        return self._up_to_last_call(list(self._tools.push(content)))

    def _up_to_last_call(self, events: list[AnswerEvent]) -> list[AnswerEvent]:
        for position, event in enumerate(events):
            if isinstance(event, CallEnded) and event.index + 1 == self._max_calls:
                self.satisfied = True
                return events[: position + 1]
        return events

    @staticmethod
    def _events(reasoning: str, events: list[AnswerEvent]) -> list[AnswerEvent]:
        return [Reasoning(reasoning), *events] if reasoning else events
