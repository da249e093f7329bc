"""From the bytes of a body to its JSON object, within bounds that keep one caller from holding up the others.

A parser has the interpreter to itself until it is done, in whatever thread it runs; how long that takes depends on
the number of values, not of bytes. Depth is bounded for the sake of everything that later walks a body. Knows no
fields.
"""

from __future__ import annotations

import gc
from typing import Any

import orjson

from engine.server.errors import invalid
from engine.server.fields import kind_of

MAX_VALUES = 1 << 20
"""Counted by commas, those within strings too. So many take some 50 ms to parse."""
MAX_BOXES = 1 << 18
"""Arrays and objects, counted by their brackets, those within strings too: each costs as much as ten numbers."""
MAX_DEPTH = 128
"""Arrays and objects within each other."""

_PIECE = 1 << 20


def parse_json(raw: bytes) -> dict[str, Any]:
    """Raises `ApiError` for what is no JSON, no object, or beyond the bounds."""
    num_boxes = _check_size(raw)
    try:
        body = _loads(raw)
    except orjson.JSONDecodeError as error:
        raise invalid(f"The body is not valid JSON: {error}", None, None) from error
    if not isinstance(body, dict):
        raise invalid(f"The body must be a JSON object, got {kind_of(body)}.", None, None)
    if num_boxes > MAX_DEPTH:
        _check_depth(body)
    return body


def _loads(raw: bytes) -> Any:
    """Collections while many arrays and objects come into being would look at all of them, again and again."""
    if len(raw) < _PIECE // 16 or not gc.isenabled():
        return orjson.loads(raw)
    gc.disable()
    try:
        return orjson.loads(raw)
    finally:
        gc.enable()


def _check_size(raw: bytes) -> int:
    """How many arrays and objects there are at most. In pieces, between which other threads may go on."""
    commas = boxes = 0
    for start in range(0, len(raw), _PIECE):
        end = start + _PIECE
        commas += raw.count(b",", start, end)
        boxes += raw.count(b"[", start, end) + raw.count(b"{", start, end)
        if commas >= MAX_VALUES:
            raise invalid(f"The body has more than {MAX_VALUES} values.", None, None)
        if boxes > MAX_BOXES:
            raise invalid(f"The body has more than {MAX_BOXES} arrays and objects.", None, None)
    return boxes


def _check_depth(body: dict[str, Any]) -> None:
    level: list[Any] = [body]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for box in level
            for child in (box.values() if type(box) is dict else box)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return
    raise invalid(f"The body is nested deeper than {MAX_DEPTH} levels.", None, None)
