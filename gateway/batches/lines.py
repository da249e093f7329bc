"""The lines of an input file: cut out of its pieces, and read. Lines count from 1.

A line holds `custom_id`, `method`, `url` and `body`; what is in the body is for the endpoint to judge when the line is
run. It does not know where the pieces come from.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.batches.types import LineError
from gateway.wire import CHAT, COMPLETIONS, EMBEDDINGS, Endpoint
from gateway.wire.request import RESPONSES

__all__ = [
    "ENDPOINTS",
    "LINES_MAX",
    "Checked",
    "Line",
    "LineRefused",
    "RawLine",
    "check_lines",
    "raw_lines",
    "read_line",
]

ENDPOINTS: Mapping[str, Endpoint] = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": COMPLETIONS,
    "/v1/embeddings": EMBEDDINGS,
    "/v1/responses": RESPONSES,
}
LINES_MAX = 50_000
LINE_BYTES_MAX = 8 * 1024 * 1024
CUSTOM_ID_CHARS_MAX = 512
ERRORS_MAX = 100
"""How many mistakes of a file are told; more would only make the answer long."""
DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class RawLine:
    """`content` is None if it is too long to be looked at. The next line begins at `ends`."""

    number: int
    begins: int
    ends: int
    content: bytes | None


@dataclass(frozen=True, slots=True)
class Line:
    custom_id: str
    body: bytes
    model: Any
    """What the body names; whether it makes sense is for the endpoint to judge."""


@dataclass(frozen=True, slots=True)
class Checked:
    total: int
    model: str | None
    """The one that all lines name, if they do."""
    errors: Sequence[LineError]


class LineRefused(Exception):
    def __init__(self, error: LineError) -> None:
        super().__init__(error.message)
        self.error = error


async def raw_lines(
    pieces: AsyncIterator[bytes], number: int = 1, begins: int = 0
) -> AsyncGenerator[RawLine, None]:
    """From the line `number`, which begins at the byte `begins` of the file and with the first of `pieces`."""
    tail, dropped = b"", 0
    async for piece in pieces:
        *whole, tail = (tail + piece).split(b"\n")
        for content in whole:
            ends = begins + dropped + len(content) + 1
            yield RawLine(number, begins, ends, _within(content, dropped))
            number, begins, dropped = number + 1, ends, 0
        if len(tail) > LINE_BYTES_MAX:
            dropped, tail = dropped + len(tail), b""
    if tail or dropped:
        yield RawLine(number, begins, begins + dropped + len(tail), _within(tail, dropped))


def read_line(raw: RawLine, url: str) -> Line:
    """Raises LineRefused."""
    if raw.content is None:
        raise _refused(raw, "line_too_long", f"The line is longer than {LINE_BYTES_MAX} bytes.")
    try:
        fields = orjson.loads(raw.content)
    except orjson.JSONDecodeError:
        fields = None
    if not isinstance(fields, dict):
        raise _refused(raw, "invalid_json_line", "This line is not parseable as a JSON object.")
    for name in ("custom_id", "method", "url", "body"):
        if fields.get(name) is None:
            message = f"Missing required parameter: '{name}'."
            raise _refused(raw, "missing_required_parameter", message, name)
    custom_id, body = fields["custom_id"], fields["body"]
    if not isinstance(custom_id, str) or not 0 < len(custom_id) <= CUSTOM_ID_CHARS_MAX:
        message = f"'custom_id' must be a string of 1 to {CUSTOM_ID_CHARS_MAX} characters."
        raise _refused(raw, "invalid_custom_id", message, "custom_id")
    if fields["method"] != "POST":
        raise _refused(raw, "invalid_method", "'method' must be 'POST'.", "method")
    if fields["url"] != url:
        raise _refused(raw, "invalid_url", f"'url' must be the batch's endpoint, '{url}'.", "url")
    if not isinstance(body, dict):
        raise _refused(raw, "invalid_body", "'body' must be an object.", "body")
    try:
        return Line(custom_id, orjson.dumps(body), body.get("model"))
    except TypeError:
        raise _refused(raw, "invalid_body", "'body' is nested too deeply.", "body") from None


async def check_lines(lines: AsyncIterator[RawLine], url: str) -> Checked:
    """Reads a whole file, keeping of each line only a digest of its `custom_id`."""
    errors: list[LineError] = []
    seen: set[bytes] = set()
    models: set[Any] = set()
    total = 0
    async for raw in lines:
        total = raw.number
        if total > LINES_MAX:
            errors.append(LineError("too_many_requests", f"A batch holds {LINES_MAX} requests at most."))
            break
        try:
            line = read_line(raw, url)
            digest = hashlib.blake2b(line.custom_id.encode(), digest_size=DIGEST_BYTES).digest()
            if digest in seen:
                message = f"The custom_id '{line.custom_id}' was used before in this file."
                raise _refused(raw, "duplicate_custom_id", message, "custom_id")
            seen.add(digest)
            _note_model(models, line)
        except LineRefused as refused:
            errors.append(refused.error)
            if len(errors) == ERRORS_MAX:
                break
    if not total:
        errors.append(LineError("empty_file", "The input file holds no request."))
    model = next(iter(models)) if len(models) == 1 else None
    return Checked(total, model if isinstance(model, str) else None, errors)


def _note_model(models: set[Any], line: Line) -> None:
    """Two are as good as many: what matters is whether there is only one."""
    if len(models) < 2:
        models.add(line.model if isinstance(line.model, str) else None)


def _within(content: bytes, dropped: int) -> bytes | None:
    return content if not dropped and len(content) <= LINE_BYTES_MAX else None


def _refused(raw: RawLine, code: str, message: str, param: str | None = None) -> LineRefused:
    return LineRefused(LineError(code, message, raw.number, param))
