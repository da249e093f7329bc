"""Stop strings in a stream of text that arrives in arbitrary pieces.

Sits between the detokeniser and the client. The result does not depend on the chunking: the answer ends
at the first character that completes any stop; of the stops that complete there the longest counts, so
no part of one is leaked. Only the longest suffix that could still become a stop is held back. Knows
nothing of tokens.
"""

from __future__ import annotations

from collections.abc import Sequence


class StopChecker:
    """One sequence's search. After a match, `push` must not be called again."""

    __slots__ = ("_held", "_include", "_stops", "matched")

    def __init__(self, stops: Sequence[str], *, include_in_output: bool = False) -> None:
        assert all(stops), "an empty stop string would end every answer at once"
        self._stops = tuple(stops)
        self._include = include_in_output
        self._held = ""
        self.matched: str | None = None
        """The stop that ended the answer."""

    def push(self, text: str) -> str:
        """Take new text, return what may be shown now. Sets `matched` when a stop completes."""
        if not self._stops:
            return text
        text = self._held + text
        found = self._first_match(text)
        if found is not None:
            end, start, self.matched = found
            self._held = ""
            return text[: end if self._include else start]
        keep = max((prefix_at_end(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        """The text held back: no stop will complete any more."""
        held, self._held = self._held, ""
        return held

    def _first_match(self, text: str) -> tuple[int, int, str] | None:
        best: tuple[int, int, str] | None = None
        for stop in self._stops:
            start = text.find(stop)
            if start >= 0:
                match = (start + len(stop), start, stop)
                best = match if best is None else min(best, match)
        return best


def prefix_at_end(text: str, stop: str) -> int:
    """Length of the longest suffix of `text` that is a proper prefix of `stop`."""
    start = text.find(stop[0], max(0, len(text) - len(stop) + 1))
    while start >= 0:
        if stop.startswith(text[start:]):
            return len(text) - start
        start = text.find(stop[0], start + 1)
    return 0
