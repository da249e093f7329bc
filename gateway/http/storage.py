"""What the routes of files and batches share: pages, queries and bodies that are checked, and a database that may be away."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl

import orjson

from gateway.db import DATABASE_ERRORS, is_unavailable
from gateway.errors import InvalidRequest, InvalidValue, MissingParameter, ServiceUnavailable
from gateway.http.call import Call

__all__ = [
    "JSON",
    "Json",
    "chosen",
    "database_may_be_away",
    "expiry_s",
    "limit_of",
    "page_of",
    "query_of",
]

Json = dict[str, Any]
JSON = {"content-type": "application/json"}
ID_CHARS_MAX = 200
EXPIRY_S = (3_600, 2_592_000)


@contextmanager
def database_may_be_away() -> Iterator[None]:
    try:
        yield
    except DATABASE_ERRORS as error:
        if not is_unavailable(error):
            raise
        raise ServiceUnavailable(
            "The service cannot be reached right now. Please retry in a moment."
        ) from error


def query_of(call: Call, known: Collection[str]) -> Mapping[str, str]:
    """Raises 400 for a parameter that nobody reads: it would be a filter silently not applied."""
    raw: bytes = call.scope.get("query_string", b"")
    query = dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True))
    for name, value in query.items():
        if name not in known:
            raise InvalidRequest(f"Unknown parameter: '{name}'.", name)
        if len(value) > ID_CHARS_MAX or "\0" in value:
            raise InvalidValue(f"'{name}' is no value that this list knows.", name)
    return query


def limit_of(query: Mapping[str, str], usual: int, most: int) -> int:
    text = query.get("limit", str(usual))
    limit = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
    if not 1 <= limit <= most:
        raise InvalidValue(f"'limit' must be between 1 and {most}.", "limit")
    return limit


def chosen(query: Mapping[str, str], name: str, values: Sequence[str]) -> str | None:
    value = query.get(name)
    if value is not None and value not in values:
        raise InvalidValue(f"'{name}' must be one of {', '.join(values)}.", name)
    return value


def page_of(rows: Sequence[Json], limit: int) -> bytes:
    """`rows` holds one more than the page when there is more."""
    data = list(rows[:limit])
    return orjson.dumps(
        {
            "object": "list",
            "data": data,
            "first_id": data[0]["id"] if data else None,
            "last_id": data[-1]["id"] if data else None,
            "has_more": len(rows) > limit,
        }
    )


def expiry_s(policy: Mapping[str, Any] | None, name: str) -> int | None:
    """The seconds of an `expires_after`. Raises 400 with the part of it that makes no sense."""
    if not policy:
        return None
    if policy.get("anchor") != "created_at":
        raise InvalidValue(f"'{name}.anchor' must be 'created_at'.", f"{name}.anchor")
    seconds = policy.get("seconds")
    if seconds is None:
        raise MissingParameter(f"{name}.seconds")
    if isinstance(seconds, str) and seconds.isascii() and seconds.isdecimal():  # in a form everything is text
        seconds = int(seconds[:9])
    low, high = EXPIRY_S
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not low <= seconds <= high:
        raise InvalidValue(f"'{name}.seconds' must be between {low} and {high}.", f"{name}.seconds")
    return seconds
