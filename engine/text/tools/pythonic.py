"""The format that writes calls as Python: `[f(a=1, b="x"), g()]` (Llama 3.2 and 4).

Arguments are literals by keyword; they become JSON while they arrive. Anything that is no literal makes the text
content. Known to `formats`; knows no other text of the answer.
"""

from __future__ import annotations

import json
import math
import re
import string

from engine.text.tools.feed import Malformed, Steps
from engine.text.tools.parser import NAME_CHARS_MAX, CallFormat, CallReader

_NAME_CHARS = frozenset(string.ascii_letters + string.digits + "_.")
_FUNCTION_CHARS = _NAME_CHARS | {"-"}
"""Names of functions need not be Python's."""
_NUMBER_CHARS = frozenset(string.digits + "+-.eE_")
_NUMBER_CHARS_MAX = 512
_DEPTH_MAX = 32
_PLAIN = {quote: re.compile(rf"[^\\{quote}\n]*") for quote in "'\""}
_CONSTANTS = {
    "True": "true",
    "False": "false",
    "None": "null",
    "true": "true",
    "false": "false",
    "null": "null",
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "0": "\0"}
_ESCAPES |= {char: char for char in "\\'\""} | {"\n": ""}
_CODES = {"x": 2, "u": 4, "U": 8}
_START, _END = "<|python_start|>", "<|python_end|>"


def _read(reader: CallReader) -> Steps[None]:
    feed = reader.feed
    yield from feed.skip_blanks()
    yield from feed.expect("[")
    while True:
        yield from feed.skip_blanks()
        yield from _call(reader)
        yield from feed.skip_blanks()
        if (yield from feed.accept("]")):
            break
        yield from feed.expect(",")
    feed.settle()
    if reader.marker == _START:
        yield from feed.skip_blanks()
        yield from feed.expect(_END)


def _call(reader: CallReader) -> Steps[None]:
    feed = reader.feed
    name = yield from feed.word(_FUNCTION_CHARS, NAME_CHARS_MAX)
    yield from feed.expect("(")
    yield from feed.skip_blanks()
    separator = "{"
    key = "" if (yield from feed.accept(")")) else (yield from _key(reader))
    reader.begin(name)
    while key:
        _emit(reader, f"{separator}{json.dumps(key)}: ")
        yield from _value(reader, 0)
        separator = ", "
        key = "" if (yield from _closed(reader, ")")) else (yield from _key(reader))
    _emit(reader, "{}" if separator == "{" else "}")
    reader.end()


def _key(reader: CallReader) -> Steps[str]:
    key = yield from reader.feed.word(_NAME_CHARS, NAME_CHARS_MAX)
    if not key:
        raise Malformed("arguments are given by keyword")
    yield from reader.feed.skip_blanks()
    yield from reader.feed.expect("=")
    return key


def _closed(reader: CallReader, bracket: str) -> Steps[bool]:
    """Behind an element: whether the bracket closes; else a comma is taken, and the blanks behind it."""
    feed = reader.feed
    yield from feed.skip_blanks()
    if (yield from feed.accept(bracket)):
        return True
    yield from feed.expect(",")
    yield from feed.skip_blanks()
    return bool((yield from feed.accept(bracket)))


def _value(reader: CallReader, depth: int) -> Steps[None]:
    feed = reader.feed
    yield from feed.skip_blanks()
    char = yield from feed.peek()
    if depth > _DEPTH_MAX:
        raise Malformed("too deep")
    if char and char in "'\"":
        yield from _string(reader)
    elif char and char in "[(":
        yield from _list(reader, "]" if char == "[" else ")", depth)
    elif char == "{":
        yield from _dict(reader, depth)
    elif char in _NUMBER_CHARS and char != "_":
        yield from _number(reader)
    else:
        word = yield from feed.word(_NAME_CHARS, NAME_CHARS_MAX)
        if word not in _CONSTANTS:
            raise Malformed("not a literal")
        _emit(reader, _CONSTANTS[word])


def _list(reader: CallReader, bracket: str, depth: int) -> Steps[None]:
    feed = reader.feed
    feed.at += 1
    yield from feed.skip_blanks()
    _emit(reader, "[")
    closed = bool((yield from feed.accept(bracket)))
    separator = ""
    while not closed:
        _emit(reader, separator)
        yield from _value(reader, depth + 1)
        separator = ", "
        closed = yield from _closed(reader, bracket)
    _emit(reader, "]")


def _dict(reader: CallReader, depth: int) -> Steps[None]:
    feed = reader.feed
    feed.at += 1
    yield from feed.skip_blanks()
    _emit(reader, "{")
    closed = bool((yield from feed.accept("}")))
    separator = ""
    while not closed:
        _emit(reader, separator)
        yield from feed.skip_blanks()
        yield from _string(reader)
        yield from feed.skip_blanks()
        yield from feed.expect(":")
        _emit(reader, ": ")
        yield from _value(reader, depth + 1)
        separator = ", "
        closed = yield from _closed(reader, "}")
    _emit(reader, "}")


def _string(reader: CallReader) -> Steps[None]:
    feed = reader.feed
    quote = yield from feed.accept("'\"")
    if not quote:
        raise Malformed("a string should follow")
    _emit(reader, '"')
    while True:
        feed.at = _PLAIN[quote].match(feed.text, feed.at).end()  # type: ignore[union-attr]  # it matches the empty text
        _emit(reader, _escaped(feed.text[feed.settled : feed.at]))
        char = yield from feed.take()
        if char == quote:
            _emit(reader, '"')
            return
        if char == "\\":
            _emit(reader, _escaped((yield from _escape(reader))))
        elif char == "\n":
            _emit(reader, "\\n")  # Python would refuse it; models write it


def _escape(reader: CallReader) -> Steps[str]:
    """What a backslash stands for; itself, in front of a character that it has no meaning for."""
    feed = reader.feed
    kind = yield from feed.take()
    if kind not in _CODES:
        return _ESCAPES.get(kind, "\\" + kind)
    digits = ""
    for _ in range(_CODES[kind]):
        digits += yield from feed.accept(string.hexdigits)
    if len(digits) != _CODES[kind] or int(digits, 16) > 0x10FFFF:
        raise Malformed("not an escape")
    return chr(int(digits, 16))


def _number(reader: CallReader) -> Steps[None]:
    feed = reader.feed
    digits = yield from feed.word(_NUMBER_CHARS, _NUMBER_CHARS_MAX)
    if not (yield from feed.more()):
        _emit(reader, digits)  # cut short, like all that comes before it
        raise Malformed("the answer ends here")
    _emit(reader, _as_json(digits))


def _as_json(digits: str) -> str:
    try:
        return str(int(digits))
    except ValueError:
        pass
    try:
        value = float(digits)
    except ValueError as error:
        raise Malformed("not a number") from error
    if not math.isfinite(value):
        raise Malformed("beyond JSON's numbers")
    return repr(value)


def _escaped(text: str) -> str:
    """Inside of a JSON string. Lone surrogates, which no encoding has, stay escapes."""
    lone = any("\ud800" <= char <= "\udfff" for char in text)
    return json.dumps(text, ensure_ascii=lone)[1:-1]


def _emit(reader: CallReader, text: str) -> None:
    """What was read is settled, and this is what it means."""
    reader.feed.settle()
    reader.argue(text)


PYTHONIC = CallFormat(
    "pythonic", (_START, "<|python_tag|>"), "[", _read, "pythonic", (_START, _END, "<|python_tag|>")
)
