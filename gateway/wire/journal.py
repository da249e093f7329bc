"""A page of an engine's usage journal (`/internal/usage`), as far as one request's final figure goes.

Reading whole journals is the reconciler's; here only "what does the journal say about this attempt now".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from gateway.wire.usage import Usage, read_usage

__all__ = ["JournalFigure", "read_figure"]


@dataclass(frozen=True, slots=True)
class JournalFigure:
    """The furthest record of an attempt: final when it is the `end` record."""

    usage: Usage
    overrun_tokens: int
    final: bool


def read_figure(raw: bytes, request_id: str, attempt: int) -> JournalFigure | None:
    try:
        records = orjson.loads(raw)["records"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    best: JournalFigure | None = None
    for record in records if isinstance(records, list) else []:
        figure = _figure(record, request_id, attempt)
        if figure is not None and not (best is not None and best.final):
            best = figure
    return best


def _figure(record: Any, request_id: str, attempt: int) -> JournalFigure | None:
    if not isinstance(record, dict):
        return None
    if (record.get("request_id"), record.get("attempt")) != (request_id, attempt):
        return None
    usage = read_usage(
        {
            "prompt_tokens": record.get("prompt_tokens"),
            "completion_tokens": record.get("completion_tokens") or 0,
            "prompt_tokens_details": {"cached_tokens": record.get("cached_tokens")},
        }
    )
    overrun = record.get("overrun_tokens")
    if usage is None:
        return None
    return JournalFigure(usage, overrun if isinstance(overrun, int) else 0, record.get("kind") == "end")
