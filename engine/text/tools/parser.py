"""Text of an answer → content and tool calls, incrementally: what all formats have in common.

Outside calls it looks for the beginnings that a format names and holds back no more than what may become one, and
blanks, which are dropped where they adjoin a call. At a beginning the format's own reader takes over; where the text
turns out not to be a call, everything not yet passed on is content after all, so that no character is lost. The
events of a text, put together, do not depend on its chunking. Knows no format.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from engine.text.events import Arguments, CallEnded, CallStarted, Content, ToolEvent
from engine.text.tools.feed import WHITESPACE, Feed, Malformed, Steps

NAME_CHARS_MAX = 256


@dataclass(frozen=True, slots=True)
class CallFormat:
    """How a family of models writes calls."""

    name: str
    markers: tuple[str, ...]
    """Each begins calls wherever it stands. The reader finds it taken."""
    bare: str
    """Characters that may begin calls without a marker, as the first of an answer. Not taken. "": none."""
    read: Callable[[CallReader], Steps[None]]
    """Reads calls after a beginning. Raises `Malformed` for anything else."""
    style: str
    """How it is written when it must be; see `forced`."""
    special_tokens: tuple[str, ...] = ()
    """Tokens that carry the format, to be shown to the parser though they are special."""
    call_id_chars: int = 24
    """Of an id, behind its prefix if it has one."""
    call_id_prefix: str = "call_"

    def call_id(self, answer: str, index: int) -> str:
        """Of an answer's call: the same wherever and however often the answer is read."""
        digest = hashlib.sha256(f"{answer}:{index}".encode()).hexdigest()
        return self.call_id_prefix + digest[: self.call_id_chars]


@dataclass(slots=True)
class CallReader:
    """What a format's reader works with: the characters, and the calls it reports."""

    feed: Feed
    known: Collection[str]
    """The functions that there are."""
    marker: str = ""
    """What this beginning was; "" without one."""
    events: list[ToolEvent] = field(default_factory=list)
    num_calls: int = 0
    is_open: bool = False
    broken: bool = False

    def begin(self, name: str) -> None:
        """From here on characters are the call's; those read before are markup."""
        if not name or not name.isprintable() or len(name) > NAME_CHARS_MAX:
            raise Malformed("not a name")
        if not self.marker and name not in self.known:
            # JSON that happens to hold a name is more likely than a call of what there is not.
            raise Malformed("no function of this name")
        self.feed.settle()
        self.events.append(CallStarted(self.num_calls, name))
        self.is_open = True

    def argue(self, text: str) -> None:
        if text:
            self.events.append(Arguments(self.num_calls, text))

    def pass_on(self) -> None:
        """The characters read are arguments as they stand."""
        self.argue(self.feed.settle())

    def end(self, *, complete: bool = True) -> None:
        self.events.append(CallEnded(self.num_calls, complete))
        self.num_calls += 1
        self.is_open = False
        self.broken = self.broken or not complete


class ToolParser:
    """One answer's. Feed it the text in any pieces, then `finish`."""

    def __init__(self, format_: CallFormat, known: Collection[str]) -> None:
        self._format = format_
        self._feed = Feed()
        self._reader = CallReader(self._feed, known)
        self._firsts = re.compile("|".join(re.escape(marker[0]) for marker in format_.markers) or r"(?!)")
        self._at_beginning = True
        """Nothing but blanks so far."""
        self._blanks: list[str] = []
        """Seen since, and not shown yet."""
        self._behind_call = False
        """Nothing but blanks since a call."""
        self._steps = self._run()
        next(self._steps)

    @property
    def num_calls(self) -> int:
        """Those that have ended."""
        return self._reader.num_calls

    @property
    def broken(self) -> bool:
        """A call was cut short or malformed."""
        return self._reader.broken

    def push(self, text: str) -> list[ToolEvent]:
        if text:
            self._feed.push(text)
            self._advance()
        return self._taken()

    def finish(self) -> list[ToolEvent]:
        """The text ends here, maybe in the middle of something."""
        self._feed.ended = True
        self._advance()
        return self._taken()

    def _advance(self) -> None:
        try:
            self._steps.send(None)
        except StopIteration:
            assert self._feed.ended, "only the end of the text ends the parser"
        if self._feed.passing:
            self._reader.pass_on()

    def _taken(self) -> list[ToolEvent]:
        events = _merged(self._reader.events)
        self._reader.events.clear()
        return events

    def _run(self) -> Steps[None]:
        yield
        while True:
            marker = yield from self._content()
            if marker is None:
                self._show_blanks()
                return
            yield from self._calls(marker)

    def _content(self) -> Steps[str | None]:
        """Pass content on up to a beginning, which is returned; None at the end of the answer."""
        feed = self._feed
        while (yield from feed.more()):
            if self._at_beginning:
                if self._skip_blanks():
                    continue
                if feed.text[feed.at] in self._format.bare:
                    self._at_beginning = False
                    return ""
            found = self._firsts.search(feed.text, feed.at)
            feed.at = len(feed.text) if found is None else found.start()
            self._show(feed.settle())
            if found is not None and (marker := (yield from self._marker())):
                self._at_beginning = False
                return marker
        return None

    def _skip_blanks(self) -> bool:
        """Keep those that stand here; whether there were any."""
        feed, rest = self._feed, self._feed.text[self._feed.at :]
        feed.at += len(rest) - len(rest.lstrip(WHITESPACE))
        blanks = feed.settle()
        self._blanks.append(blanks)
        return bool(blanks)

    def _marker(self) -> Steps[str]:
        """The marker that stands here; else "", and its first character is content."""
        feed = self._feed
        candidates = list(self._format.markers)
        read = ""
        while candidates := [marker for marker in candidates if marker.startswith(read)]:
            if read in candidates:
                return read
            if not (char := (yield from feed.peek())):
                break
            feed.at += 1
            read += char
        feed.at = feed.settled + 1
        self._show(feed.settle())
        return ""

    def _calls(self, marker: str) -> Steps[None]:
        reader, before = self._reader, self._reader.num_calls
        reader.marker = marker
        try:
            yield from self._format.read(reader)
        except Malformed:
            self._fall_back(marker, nothing_yet=reader.num_calls == before and not reader.is_open)
        else:
            self._feed.settle()
        if reader.num_calls > before:
            self._blanks.clear()
            self._behind_call = True

    def _fall_back(self, marker: str, *, nothing_yet: bool) -> None:
        """What was read since the last call, or since the beginning, is looked at again, as content."""
        feed, reader = self._feed, self._reader
        if feed.passing:
            reader.pass_on()
            feed.passing = False
        if reader.is_open:
            reader.end(complete=False)
        if feed.ended and not nothing_yet and feed.at == len(feed.text):
            feed.settle()  # the markup behind a call, cut short
            return
        feed.take_back()
        if nothing_yet:
            feed.at += len(marker) or 1
            self._show(feed.settle())

    def _show(self, text: str) -> None:
        """Content, but for the blanks at its end, and for those behind a call."""
        if self._behind_call:
            text = text.lstrip(WHITESPACE)
        if not text:
            return
        visible = text.rstrip(WHITESPACE)
        if visible:
            self._show_blanks()
            self._at_beginning = self._behind_call = False
            self._reader.events.append(Content(visible))
        self._blanks.append(text[len(visible) :])

    def _show_blanks(self) -> None:
        blanks = "".join(self._blanks)
        self._blanks.clear()
        if blanks:
            self._reader.events.append(Content(blanks))


def _merged(events: list[ToolEvent]) -> list[ToolEvent]:
    """Neighbouring texts of one kind as one."""
    merged: list[ToolEvent] = []
    for event in events:
        last = merged[-1] if merged else None
        if isinstance(event, Content) and isinstance(last, Content):
            merged[-1] = Content(last.text + event.text)
        elif isinstance(event, Arguments) and isinstance(last, Arguments) and last.index == event.index:
            merged[-1] = Arguments(event.index, last.text + event.text)
        else:
            merged.append(event)
    return merged
