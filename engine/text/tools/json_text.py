"""JSON read from a `Feed`: finds where a value ends, at constant cost per character and without keeping it.

Strict JSON, but for raw control characters in strings, which models write and a caller's parser would refuse: where
the text is passed on, they are escaped. Knows no tool calls.
"""

from __future__ import annotations

import json
import re
from typing import Any

from engine.text.tools.feed import Feed, Malformed, Steps

_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_NUMBER_CHARS = frozenset("0123456789+-.eE")
_NUMBER_CHARS_MAX = 512
_WORDS = {"t": "true", "f": "false", "n": "null"}
_ESCAPES = '"\\/bfnrtu'
_HEX = "0123456789abcdefABCDEF"
_CLOSING = {"{": "}", "[": "]"}


def read_value(feed: Feed, *, mend: bool = False) -> Steps[None]:
    """One JSON value. With `mend`, raw control characters in strings are escaped in place.

    Containers are followed with a stack of our own: a model may open as many as it likes."""
    open_: list[str] = []
    while True:
        yield from feed.skip_blanks()
        char = yield from feed.take()
        if char in _CLOSING:
            open_.append(char)
            if not (yield from _ends_at_once(feed, open_, mend)):
                continue
        else:
            feed.at -= 1
            yield from _scalar(feed, mend)
        if not (yield from _after_value(feed, open_, mend)):
            return


def read_string(feed: Feed, *, mend: bool = False) -> Steps[None]:
    yield from feed.expect('"')
    while True:
        feed.at = _PLAIN.match(feed.text, feed.at).end()  # type: ignore[union-attr]  # it matches the empty text
        char = yield from feed.peek()
        if char == '"':
            feed.at += 1
            return
        if char == "\\":
            feed.at += 1
            yield from _escape(feed)
        elif char and char < " " and mend:
            _replace(feed, json.dumps(char)[1:-1])
        elif char == "" or char < " ":
            raise Malformed("a string does not end")


def read_text(feed: Feed) -> Steps[str]:
    """A string, decoded. Not while passing."""
    start = feed.at - feed.settled
    yield from read_string(feed)
    decoded: str = json.loads(feed.text[feed.settled + start : feed.at])
    return decoded


def read_key(feed: Feed) -> Steps[str]:
    """A member's key, up to and with the colon and the blanks behind it."""
    key = yield from read_text(feed)
    yield from _colon(feed)
    return key


def loads(text: str) -> Any:
    """Raises `Malformed`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from error


def _colon(feed: Feed) -> Steps[None]:
    yield from feed.skip_blanks()
    yield from feed.expect(":")
    yield from feed.skip_blanks()


def _ends_at_once(feed: Feed, open_: list[str], mend: bool) -> Steps[bool]:
    """Behind an opening bracket: an empty container, or the first key if it is an object."""
    yield from feed.skip_blanks()
    if (yield from feed.accept(_CLOSING[open_[-1]])):
        open_.pop()
        return True
    if open_[-1] == "{":
        yield from read_string(feed, mend=mend)
        yield from _colon(feed)
    return False


def _after_value(feed: Feed, open_: list[str], mend: bool) -> Steps[bool]:
    """Closing brackets, or a comma and the next key. False when the outermost value has ended."""
    while open_:
        yield from feed.skip_blanks()
        if (yield from feed.accept(_CLOSING[open_[-1]])):
            open_.pop()
            continue
        yield from feed.expect(",")
        if open_[-1] == "{":
            yield from feed.skip_blanks()
            yield from read_string(feed, mend=mend)
            yield from _colon(feed)
        return True
    return False


def _scalar(feed: Feed, mend: bool) -> Steps[None]:
    char = yield from feed.peek()
    if char == '"':
        yield from read_string(feed, mend=mend)
    elif char in _WORDS:
        yield from feed.expect(_WORDS[char])
    else:
        yield from _number(feed)


def _number(feed: Feed) -> Steps[None]:
    if not _NUMBER.fullmatch((yield from feed.word(_NUMBER_CHARS, _NUMBER_CHARS_MAX))):
        raise Malformed("not a JSON value")


def _escape(feed: Feed) -> Steps[None]:
    kind = yield from feed.accept(_ESCAPES)
    if not kind:
        raise Malformed("not a JSON escape")
    for _ in range(4 if kind == "u" else 0):
        if not (yield from feed.accept(_HEX)):
            raise Malformed("not a JSON escape")


def _replace(feed: Feed, text: str) -> None:
    """Read this instead of the next character."""
    feed.text = feed.text[: feed.at] + text + feed.text[feed.at + 1 :]
    feed.at += len(text)
