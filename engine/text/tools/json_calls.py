"""The formats that write a call as a JSON object: Hermes (Qwen), Llama 3 and Mistral.

Each reader is entered behind its marker, follows the text with `json_text`, and passes arguments on as they come,
letter by letter. Known to `formats`; knows no other text of the answer.
"""

from __future__ import annotations

import string
from dataclasses import replace

from engine.text.tools.feed import Malformed, Steps
from engine.text.tools.json_text import loads, read_key, read_text, read_value
from engine.text.tools.parser import NAME_CHARS_MAX, CallFormat, CallReader

_ARGUMENT_KEYS = ("arguments", "parameters")
_OTHER_KEYS = ("id", "type")
_NAME_CHARS = frozenset(string.ascii_letters + string.digits + "_-.")


def _read_hermes(reader: CallReader) -> Steps[None]:
    """`<tool_call>{"name": …, "arguments": {…}}</tool_call>`"""
    yield from reader.feed.skip_blanks()
    yield from _read_object(reader)
    yield from reader.feed.skip_blanks()
    yield from reader.feed.expect("</tool_call>")


def _read_llama3(reader: CallReader) -> Steps[None]:
    """`{"name": …, "parameters": {…}}`, maybe behind `<|python_tag|>`; more of them behind semicolons, as trained, or
    whatever else stands between them in practice: commas and newlines."""
    feed = reader.feed
    yield from feed.skip_blanks()
    while True:
        # Without a marker there is only this to tell a call from an answer in JSON.
        yield from _read_object(reader, needs_arguments=not reader.marker)
        yield from feed.skip_blanks()
        separator = yield from feed.accept(";,")
        yield from feed.skip_blanks()
        if (yield from feed.peek()) != "{":
            if separator:
                raise Malformed("a call should follow")
            return


def _read_mistral(reader: CallReader) -> Steps[None]:
    """`[TOOL_CALLS][{"name": …, "arguments": {…}}, …]`, or, in newer ones, `[TOOL_CALLS]name[ARGS]{…}`."""
    feed = reader.feed
    yield from feed.skip_blanks()
    if not (yield from feed.accept("[")):
        yield from _read_named(reader)
        return
    while True:
        yield from feed.skip_blanks()
        yield from _read_object(reader)
        yield from feed.skip_blanks()
        if (yield from feed.accept("]")):
            return
        yield from feed.expect(",")


def _read_named(reader: CallReader) -> Steps[None]:
    feed = reader.feed
    name = yield from feed.word(_NAME_CHARS, NAME_CHARS_MAX)
    yield from feed.skip_blanks()
    if (yield from feed.accept("[")):
        if (yield from feed.accept("C")):
            yield from feed.expect("ALL_ID]")
            yield from feed.word(_NAME_CHARS, NAME_CHARS_MAX)
            yield from feed.expect("[")
        yield from feed.expect("ARGS]")
        yield from feed.skip_blanks()
    if (yield from feed.peek()) != "{":
        raise Malformed("arguments should follow")
    reader.begin(name)
    yield from _pass_arguments(reader)


def _read_object(reader: CallReader, *, needs_arguments: bool = False) -> Steps[None]:
    """One call. Members that no call has are read over, unless they may be misspelt arguments."""
    feed, before = reader.feed, reader.num_calls
    name = arguments = None
    yield from feed.expect("{")
    while True:
        yield from feed.skip_blanks()
        key = yield from read_key(feed)
        if key in _ARGUMENT_KEYS:
            if arguments is not None or reader.num_calls > before:
                raise Malformed("arguments stand here twice")
            if name is not None and (yield from feed.peek()) == "{":
                reader.begin(name)
                yield from _pass_arguments(reader)
            else:
                arguments = yield from _keep_arguments(reader)
        elif key == "name" and name is None:
            name = yield from read_text(feed)
        else:
            needs_arguments = needs_arguments or key not in _OTHER_KEYS
            yield from read_value(feed)
        yield from feed.skip_blanks()
        if (yield from feed.accept("}")):
            break
        yield from feed.expect(",")
    if reader.num_calls == before:
        if name is None or (needs_arguments and arguments is None):
            raise Malformed("not a call")
        _report(reader, name, "{}" if arguments is None else arguments)
    feed.settle()


def _pass_arguments(reader: CallReader) -> Steps[None]:
    reader.feed.passing = True
    yield from read_value(reader.feed, mend=True)
    reader.feed.passing = False
    reader.pass_on()
    reader.end()


def _keep_arguments(reader: CallReader) -> Steps[str]:
    """Arguments that cannot be passed on as they come: before the name, or written as a string or null."""
    feed = reader.feed
    start = feed.at - feed.settled
    yield from read_value(feed)
    text = feed.text[feed.settled + start : feed.at]
    if text == "null":
        return "{}"
    if text.startswith('"'):
        text = loads(text)
    if not isinstance(loads(text), dict) or any("\ud800" <= char <= "\udfff" for char in text):
        raise Malformed("arguments are an object, in characters that can be sent")
    return text


def _report(reader: CallReader, name: str, arguments: str) -> None:
    reader.begin(name)
    reader.argue(arguments)
    reader.end()


HERMES = CallFormat("hermes", ("<tool_call>",), "", _read_hermes, "hermes", ("<tool_call>", "</tool_call>"))
LLAMA3_JSON = CallFormat(
    "llama3_json", ("<|python_tag|>",), "{", _read_llama3, "llama3_json", ("<|python_tag|>",)
)
MISTRAL = CallFormat(
    "mistral",
    ("[TOOL_CALLS]",),
    "",
    _read_mistral,
    "mistral",
    ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"),
    call_id_chars=9,  # its templates refuse any other length
    call_id_prefix="",
)
MISTRAL_ARGS = replace(MISTRAL, style="mistral_args")
"""The newer spelling, which is read alike."""
