"""`<think>…</think>` at the beginning of an answer → reasoning, apart from the content behind it.

Some templates open the reasoning in the prompt, some close it there, and some models leave the opening out; where an
answer begins is therefore told by the end of its prompt (`start_of`). Newlines at the tags belong to neither side.
Any chunking of a text is split alike. Pure; knows no tokens and no tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from engine.text.stops import prefix_at_end

OPEN, CLOSE = "<think>", "</think>"
_BLANKS = " \t\r\n"


class Start(Enum):
    """Where an answer's first character stands."""

    REASONING = "reasoning"
    UNDECIDED = "undecided"
    """In the content, unless the answer begins with the opening tag."""
    CONTENT = "content"


UNOPENED: Mapping[str, Start] = {"deepseek_r1": Start.REASONING, "qwen3": Start.UNDECIDED}
"""Parser's name → what an answer begins with when its prompt says nothing. R1 may leave the opening tag out."""


def start_of(parser: str, prompt_end: str) -> Start:
    """`prompt_end`: the last characters of the prompt, a dozen beyond its blanks."""
    end = prompt_end.rstrip(_BLANKS)
    if end.endswith(OPEN):
        return Start.REASONING
    return Start.CONTENT if end.endswith(CLOSE) else UNOPENED[parser]


def choose_parser(name: str, template: str) -> str | None:
    """The parser of this name; of "auto", the one for models with this chat template, if they reason."""
    if name != "auto":
        return None if name == "none" else name
    if CLOSE not in template:
        return None
    return "qwen3" if OPEN in template else "deepseek_r1"


class ReasoningSplitter:
    """One answer's. `inside` says whether the text so far ends within the reasoning."""

    __slots__ = ("_at_start", "_held", "_newlines", "_undecided", "inside")

    def __init__(self, start: Start) -> None:
        self._undecided = start is not Start.CONTENT
        """The opening tag may still come."""
        self.inside = start is Start.REASONING
        self._held = ""
        """May become a tag."""
        self._newlines: list[str] = []
        """In front of what may be the closing tag."""
        self._at_start = start is Start.REASONING
        """Nothing of this side has been shown: newlines are not worth it."""

    def push(self, text: str) -> tuple[str, str]:
        """(reasoning, content) that this text brings."""
        if self._undecided:
            text = self._look_for_opening(text)
            if self._undecided:
                return "", ""
        return self._split(text)

    def finish(self) -> tuple[str, str]:
        """What was held back: no tag will come any more."""
        held, self._held = "".join(self._newlines) + self._held, ""
        self._newlines.clear()
        self._undecided = False
        return (held, "") if self.inside else ("", held)

    def _look_for_opening(self, text: str) -> str:
        """The text behind the opening tag, or all of it once there can be none; empty while that is open."""
        text = self._held + text
        begun = text.lstrip(_BLANKS)
        if OPEN.startswith(begun) and begun != OPEN:
            self._held = text
            return ""
        self._undecided, self._held = False, ""
        if not begun.startswith(OPEN):
            return text
        self.inside = self._at_start = True
        return begun[len(OPEN) :]

    def _split(self, text: str) -> tuple[str, str]:
        if not self.inside:
            return "", self._without_newlines(text)
        text = self._held + text
        end = text.find(CLOSE)
        if end >= 0:
            self.inside, self._held = False, ""
            reasoning = self._show(text[:end])
            self._newlines.clear()
            self._at_start = True
            return reasoning, self._without_newlines(text[end + len(CLOSE) :])
        keep = prefix_at_end(text, CLOSE)
        self._held = text[len(text) - keep :]
        return self._show(text[: len(text) - keep]), ""

    def _show(self, text: str) -> str:
        """Reasoning, but for the newlines at its end."""
        text = self._without_newlines(text)
        shown = text.rstrip("\n")
        if shown:
            shown, newlines = "".join(self._newlines) + shown, text[len(shown) :]
            self._newlines[:] = [newlines]
            return shown
        self._newlines.append(text)
        return ""

    def _without_newlines(self, text: str) -> str:
        """Where one side begins, its leading newlines are dropped."""
        if self._at_start:
            text = text.lstrip("\n")
            self._at_start = not text
        return text
