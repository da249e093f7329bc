"""What an answer's text turns out to be: reasoning, content, tool calls.

The parsers of `reasoning` and `tools` produce these in the order of the text; the server turns them into messages
and deltas. Knows no JSON of any API.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Content:
    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call of the function `name`; `index` counts the calls of one answer from 0."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """A fragment of the call's arguments. All fragments of a complete call together are one JSON object."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """Nothing more follows for this call. `complete` is False if the model broke off or wrote no JSON."""

    index: int
    complete: bool


ToolEvent = Content | CallStarted | Arguments | CallEnded
AnswerEvent = ToolEvent | Reasoning
