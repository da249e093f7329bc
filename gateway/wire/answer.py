"""A whole (not streamed) JSON answer: its usage, the model's name in it, and an engine's error.

The bytes go on as they came, but for the model's name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.wire.usage import Usage, read_usage

__all__ = ["Answer", "EngineError", "Rename", "RenameAny", "read_answer", "read_error"]

_MODEL = re.compile(rb'"model":\s*"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True, slots=True)
class EngineError:
    """What an engine said went wrong; every part may be missing. `usage` is set by our own engine only."""

    message: str | None
    type: str | None
    param: str | None
    code: str | None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    body: bytes
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class Rename:
    """The engine's model name → the name the client asked for, in JSON bytes.

    A quote inside a JSON string is escaped, so the needle can only be a key with its value.
    """

    needles: tuple[bytes, bytes]
    value: bytes

    @classmethod
    def between(cls, upstream: str, served: str) -> Rename | None:
        if upstream == served:
            return None
        old, new = orjson.dumps(upstream), orjson.dumps(served)
        return cls((b'"model":' + old, b'"model": ' + old), b'"model":' + new)

    def apply(self, data: bytes) -> bytes:
        tight, spaced = self.needles
        return data.replace(tight, self.value).replace(spaced, self.value)


@dataclass(frozen=True, slots=True)
class RenameAny:
    """Whatever name the engine gives its model → the name the client asked for: others answer with a path, or with a
    name of their own whatever they were asked for."""

    value: bytes

    @classmethod
    def to(cls, served: str) -> RenameAny:
        return cls(b'"model":' + orjson.dumps(served))

    def apply(self, data: bytes) -> bytes:
        return _MODEL.sub(lambda _: self.value, data)


def read_answer(raw: bytes, rename: Rename | RenameAny | None) -> Answer | None:
    """None when the body is no JSON object: the engine answered nonsense."""
    fields = _object(raw)
    if fields is None:
        return None
    return Answer(rename.apply(raw) if rename is not None else raw, read_usage(fields.get("usage")))


def read_error(raw: bytes) -> EngineError:
    """Reads OpenAI's error object, and the flat and textual variants that other servers use."""
    return error_of(_object(raw) or {})


def error_of(fields: dict[str, Any]) -> EngineError:
    error = fields.get("error", fields)
    usage = read_usage(fields.get("usage"))
    if isinstance(error, str):
        return EngineError(error, None, None, None, usage)
    if not isinstance(error, dict):
        return EngineError(None, None, None, None, usage)
    return EngineError(
        _text(error, "message"), _text(error, "type"), _text(error, "param"), _text(error, "code"), usage
    )


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        fields = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return fields if isinstance(fields, dict) else None


def _text(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) else None
