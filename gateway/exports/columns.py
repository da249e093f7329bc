"""The columns of the event formats: CSV, JSONL and Parquet hold the same, under the names of the admin API.

Amounts are integer nano-USD, durations integers in the unit their name ends in. A value of the ledger becomes a plain
one here; how it is written is the format's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from gateway.exports.types import ExportRow

__all__ = ["COLUMNS", "Column", "Kind", "instant"]

Kind = Literal["text", "integer", "boolean", "instant"]


@dataclass(frozen=True, slots=True)
class Column:
    """`source` is the column of `usage_event`."""

    name: str
    source: str
    kind: Kind
    is_nullable: bool = False

    def value(self, row: ExportRow) -> Any:
        value = row[self.source]
        return _PLAIN.get(self.source, _same)(value) if value is not None else None


def instant(at: datetime) -> str:
    """RFC 3339 in UTC, always with microseconds, so that it sorts as text."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _same(value: Any) -> Any:
    return value


_PLAIN: dict[str, Callable[[Any], Any]] = {"event_id": str, "corrects": str}

COLUMNS = (
    Column("occurred_at", "occurred_at", "instant"),
    Column("event_id", "event_id", "text"),
    Column("kind", "kind", "text"),
    Column("request_id", "request_id", "text"),
    Column("project_id", "tenant_id", "text"),
    Column("api_key_id", "key_id", "text"),
    Column("user_ref", "user_ref", "text", is_nullable=True),
    Column("model", "served_model", "text"),
    Column("route_id", "route_id", "text"),
    Column("pool_id", "pool_id", "text"),
    Column("endpoint", "endpoint", "text"),
    Column("class", "request_class", "text"),
    Column("stream", "is_stream", "boolean"),
    Column("status", "status", "text"),
    Column("error_code", "error_code", "text", is_nullable=True),
    Column("prompt_uncached_tokens", "prompt_uncached_tokens", "integer"),
    Column("prompt_cached_tokens", "prompt_cached_tokens", "integer"),
    Column("completion_tokens", "completion_tokens", "integer"),
    Column("reasoning_tokens", "reasoning_tokens", "integer"),
    Column("input_nanousd", "input_nanousd", "integer"),
    Column("cached_input_nanousd", "cached_input_nanousd", "integer"),
    Column("output_nanousd", "output_nanousd", "integer"),
    Column("adjustment_nanousd", "adjustment_nanousd", "integer"),
    Column("amount_nanousd", "amount_nanousd", "integer"),
    Column("over_hold_nanousd", "over_hold_nanousd", "integer"),
    Column("price_input_id", "price_input_id", "integer"),
    Column("price_cached_input_id", "price_cached_input_id", "integer"),
    Column("price_output_id", "price_output_id", "integer"),
    Column("queue_ms", "queue_ms", "integer", is_nullable=True),
    Column("ttft_ms", "ttft_ms", "integer", is_nullable=True),
    Column("e2e_ms", "e2e_ms", "integer", is_nullable=True),
    Column("tpot_us", "tpot_us", "integer", is_nullable=True),
    Column("client_retry_count", "client_retry_count", "integer"),
    Column("corrects", "corrects", "text", is_nullable=True),
    Column("late_from", "late_from", "instant", is_nullable=True),
    Column("recorded_at", "recorded_at", "instant"),
)
