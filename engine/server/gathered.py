"""An answer that is not streamed, put together as it comes: one delta for each choice.

Between `generation`, whose news of a step it is given, and the shapes, which write it. News that waited for the end as
they came would take a hundred times their text. Knows no endpoint.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from io import StringIO

from engine.server.answer_size import num_bytes
from engine.server.choice import CallDelta, Delta


class Gathered:
    """Of all choices of one answer."""

    def __init__(self) -> None:
        self._choices: dict[int, _Choice] = {}
        self.num_bytes = 0
        """Of the text: content, reasoning and the arguments of calls."""

    def add(self, news: Iterable[Delta]) -> None:
        for delta in news:
            choice = self._choices.get(delta.index)
            if choice is None:
                choice = self._choices[delta.index] = _Choice(delta.index)
            choice.add(delta)
            self.num_bytes += _num_bytes(delta)

    def whole(self) -> list[Delta]:
        """By index."""
        return [self._choices[index].whole() for index in sorted(self._choices)]


class _Choice:
    __slots__ = ("_calls", "_delta", "_reasoning", "_text")

    def __init__(self, index: int) -> None:
        self._delta = Delta(index)
        self._text, self._reasoning = StringIO(), StringIO()
        self._calls: list[tuple[CallDelta, StringIO]] = []
        """What came first of each, and all its arguments."""

    def add(self, part: Delta) -> None:
        whole = self._delta
        self._text.write(part.text)
        self._reasoning.write(part.reasoning)
        for call in part.calls:
            if not self._calls or self._calls[-1][0].index != call.index:
                self._calls.append((call, StringIO()))
            self._calls[-1][1].write(call.arguments)
        whole.token_ids += part.token_ids
        whole.logprobs += part.logprobs
        whole.prompt_logprobs += part.prompt_logprobs
        whole.embedding = part.embedding or whole.embedding
        if part.finish_reason is not None:
            whole.finish_reason, whole.stop_reason = part.finish_reason, part.stop_reason

    def whole(self) -> Delta:
        return replace(
            self._delta,
            text=self._text.getvalue(),
            reasoning=self._reasoning.getvalue(),
            calls=[replace(call, arguments=arguments.getvalue()) for call, arguments in self._calls],
        )


def _num_bytes(delta: Delta) -> int:
    texts = (delta.text, delta.reasoning, *(call.arguments for call in delta.calls))
    return sum(map(num_bytes, texts))
