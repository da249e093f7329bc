"""Characters that are pushed, for parsers that pull: how a recursive descent becomes incremental.

A parser is a generator that asks a `Feed` for characters and is suspended while there are none. It decides by
characters alone and never by how they arrived, so any chunking of a text is parsed alike. What it has read and not
yet settled can be taken back. Knows no format.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from typing import TypeVar

ResultT = TypeVar("ResultT")
Steps = Generator[None, None, ResultT]
"""A parser that may have to wait for characters."""

UNSETTLED_MAX = 1 << 16
"""Characters that may be read before it is known what they are."""
WHITESPACE = " \t\r\n"


class Malformed(ValueError):
    """The text is not what its beginning promised."""


class Feed:
    """The text of one answer from the first unsettled character on. `settled <= at <= len(text)`."""

    __slots__ = ("at", "ended", "passing", "settled", "text")

    def __init__(self) -> None:
        self.text = ""
        self.settled = 0
        self.at = 0
        self.ended = False
        """No more characters will come."""
        self.passing = False
        """What is read is passed on at once, as a fragment of arguments."""

    def push(self, text: str) -> None:
        self.text = self.text[self.settled :] + text
        self.at -= self.settled
        self.settled = 0

    def settle(self) -> str:
        """Everything read so far; it cannot be taken back any more."""
        text = self.text[self.settled : self.at]
        self.settled = self.at
        return text

    def take_back(self) -> None:
        """To the first character that is not settled."""
        self.at = self.settled

    def more(self) -> Steps[bool]:
        """Wait until there is a character; False at the end of the answer."""
        if not self.passing and self.at - self.settled > UNSETTLED_MAX:
            raise Malformed("too long to be undecided")
        while self.at == len(self.text):
            if self.ended:
                return False
            yield
        return True

    def peek(self) -> Steps[str]:
        """The next character, or "" at the end of the answer."""
        return self.text[self.at] if (yield from self.more()) else ""

    def take(self) -> Steps[str]:
        """The next character. Raises `Malformed` at the end."""
        if not (yield from self.more()):
            raise Malformed("the answer ends here")
        self.at += 1
        return self.text[self.at - 1]

    def accept(self, chars: str) -> Steps[str]:
        """The next character if it is one of these, else ""."""
        char = yield from self.peek()
        if not char or char not in chars:
            return ""
        self.at += 1
        return char

    def expect(self, literal: str) -> Steps[None]:
        """Exactly this. Raises `Malformed` at the first other character, which is not taken."""
        for wanted in literal:
            if not (yield from self.accept(wanted)):
                raise Malformed(f"{literal!r} should follow")

    def skip_blanks(self) -> Steps[None]:
        while (yield from self.accept(WHITESPACE)):
            pass

    def word(self, chars: Collection[str], max_chars: int) -> Steps[str]:
        """The longest run of these characters. Raises `Malformed` beyond `max_chars`."""
        word = ""
        while (char := (yield from self.peek())) and char in chars:
            self.at += 1
            word += char
            if len(word) > max_chars:
                raise Malformed("too long for a word")
        return word
