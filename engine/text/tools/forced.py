"""What an answer with calls must look like, as a structural tag: the grammar behind `required`, named and strict tools.

Forced calls are written in the model's own format, so that the parser that reads voluntary ones reads them as well,
and the reasoning in front of them stays free. A structural tag is xgrammar's JSON for "constants, grammars and free
text in this order"; it is compiled elsewhere. Knows no requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.text.answer import AnswerFormat
from engine.text.reasoning import CLOSE, OPEN, Start
from engine.text.schema import SchemaError, schema_grammar
from engine.text.tools.parser import CallFormat

Tag = dict[str, Any]
"""A format of a structural tag."""
Schema = Mapping[str, Any]

_ANY: Schema = {"type": "object"}
_KEYWORD = re.compile(r"[A-Za-z0-9_.]+")
_NEWLINES: Tag = {"type": "regex", "pattern": "\\n{0,2}"}


class FunctionSchemaError(Exception):
    """Why the schema of `function` is not served, and where in it."""

    def __init__(self, function: str, path: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.function = function
        self.path = path


@dataclass(frozen=True, slots=True, kw_only=True)
class Forced:
    """What is demanded of an answer's calls."""

    schemas: Mapping[str, Schema | None]
    """Function → schema of its arguments; None: any object."""
    is_must: bool
    """There is at least one call, and nothing else."""
    parallel: bool
    """There may be several."""
    is_strict: bool
    """Calls follow their schemas even if none is demanded."""


def forced_calls(
    format_: AnswerFormat, forced: Forced | None, content: tuple[str, str] | None = None
) -> str | None:
    """The structural tag of an answer; None: nothing is demanded beyond `content`, the (kind, text) of the grammar
    that an answer without calls must follow. Calls that must be made are made instead of content. Raises
    `FunctionSchemaError`."""
    wanted = _wanted(format_, forced, content)
    starts_at_once = format_.reasoning in (None, Start.CONTENT)
    if wanted is None or (starts_at_once and forced is None):
        return None
    if not starts_at_once:
        wanted = _behind_reasoning(format_.reasoning is Start.UNDECIDED, wanted)
    return json.dumps({"type": "structural_tag", "format": wanted})


def _wanted(format_: AnswerFormat, forced: Forced | None, content: tuple[str, str] | None) -> Tag | None:
    text = None if content is None else _content(*content)
    if forced is None or format_.calls is None:
        return text
    if forced.is_must:
        return _calls(format_.calls, forced)
    if text is not None:
        return {"type": "or", "elements": [_calls(format_.calls, forced), text]}
    return _free_or_calls(format_.calls, forced) if forced.is_strict else None


def _behind_reasoning(is_optional: bool, wanted: Tag) -> Tag:
    thought: Tag = {
        "type": "tag",
        "begin": OPEN if is_optional else "",
        "content": {"type": "any_text"},
        "end": CLOSE,
    }
    reasoning = _sequence(thought, _NEWLINES)
    return _sequence({"type": "optional", "content": reasoning} if is_optional else reasoning, wanted)


def _content(kind: str, text: str) -> Tag:
    match kind:
        case "choice":
            return {"type": "or", "elements": [_constant(choice) for choice in json.loads(text)]}
        case "ebnf":
            return _grammar(text)
    raise AssertionError(f"content of kind {kind} is never asked for together with tools")


def _calls(format_: CallFormat, forced: Forced) -> Tag:
    """One call or more, and no other text."""
    tags = [_tag(format_, name, schema) for name, schema in forced.schemas.items()]
    return _wrapped(
        format_,
        {
            "type": "tags_with_separator",
            "tags": tags,
            "separator": _STYLES[format_.style].separator,
            "at_least_one": True,
            "stop_after_first": not forced.parallel,
        },
    )


def _free_or_calls(format_: CallFormat, forced: Forced) -> Tag:
    """Any text, but what begins like a call is one."""
    style = _STYLES[format_.style]
    if not style.trigger:
        other = {"type": "regex", "pattern": f"[ \\t\\r\\n]*([^ \\t\\r\\n\\{format_.bare}](.|\\n)*)?"}
        return {"type": "or", "elements": [_calls(format_, forced), other]}
    if style.opening:
        inner = _calls(format_, forced)["elements"]
        tags = [{"type": "tag", "begin": style.opening, "content": inner[1], "end": style.closing}]
    else:
        tags = [_tag(format_, name, schema) for name, schema in forced.schemas.items()]
    return {
        "type": "triggered_tags",
        "triggers": [style.trigger],
        "tags": tags,
        "at_least_one": False,
        "stop_after_first": not forced.parallel,
    }


@dataclass(frozen=True, slots=True)
class _Style:
    """How a format spells calls when it is told to."""

    begin: str
    """Of one call; `@` stands for its name."""
    end: str
    separator: str
    opening: str = ""
    """Of all calls together."""
    closing: str = ""
    trigger: str = ""
    """Begins calls within a text; "": they only stand at its beginning."""


_STYLES: Mapping[str, _Style] = {
    "hermes": _Style(
        '<tool_call>\n{"name": "@", "arguments": ', "}\n</tool_call>", "\n", trigger="<tool_call>"
    ),
    "llama3_json": _Style('{"name": "@", "parameters": ', "}", "; "),
    "mistral": _Style('{"name": "@", "arguments": ', "}", ", ", "[TOOL_CALLS] [", "]", "[TOOL_CALLS]"),
    "mistral_args": _Style("[TOOL_CALLS]@[ARGS]", "", "", trigger="[TOOL_CALLS]"),
    "pythonic": _Style("@(", ")", ", ", "[", "]"),
}


def _tag(format_: CallFormat, name: str, schema: Schema | None) -> Tag:
    style = _STYLES[format_.style]
    try:
        arguments = _keywords(schema or {}) if format_.style == "pythonic" else _json(schema or _ANY)
    except SchemaError as error:
        raise FunctionSchemaError(name, error.path, str(error)) from error
    return {
        "type": "tag",
        "begin": style.begin.replace("@", name),
        "content": arguments,
        "end": style.end,
    }


def _wrapped(format_: CallFormat, calls: Tag) -> Tag:
    style = _STYLES[format_.style]
    if not style.opening:
        return calls
    return _sequence(_constant(style.opening), calls, _constant(style.closing))


def _keywords(schema: Schema) -> Tag:
    """Python's keyword arguments: those required, in their order, then any of the others."""
    properties = {name: inner for name, inner in schema.get("properties", {}).items() if inner is not False}
    required = [name for name in properties if name in schema.get("required", ())]
    optional = [name for name in properties if name not in required]
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}

    def keyword(name: str, before: str = "") -> Tag:
        value = properties[name]
        if not _KEYWORD.fullmatch(name):
            raise SchemaError(("properties", name), "this is no name of an argument in Python")
        try:
            inner = _json({**definitions, **value} if isinstance(value, dict) else {})
        except SchemaError as error:
            raise SchemaError(("properties", name, *error.path), str(error)) from error
        return _sequence(_constant(f"{before}{name}="), inner)

    def rest(names: Sequence[str]) -> list[Tag]:
        return [{"type": "optional", "content": keyword(name, ", ")} for name in names]

    if required:
        first, *others = required
        return _sequence(keyword(first), *[keyword(name, ", ") for name in others], *rest(optional))
    ways = [_sequence(keyword(name), *rest(optional[place + 1 :])) for place, name in enumerate(optional)]
    return {"type": "or", "elements": [*ways, _constant("")]} if ways else _constant("")


def _json(schema: Schema) -> Tag:
    return _grammar(schema_grammar(dict(schema)))


def _grammar(text: str) -> Tag:
    return {"type": "grammar", "grammar": text}


def _constant(text: str) -> Tag:
    return {"type": "const_string", "value": text}


def _sequence(*elements: Tag) -> Tag:
    return {"type": "sequence", "elements": list(elements)}
