"""Stripe meter events: what each project owes for each hour, as JSON lines that Stripe's endpoint takes.

A line is an immutable delta. Its hour is that in which the ledger booked it, so it is the same whichever period is
exported, and its identifier says project and hour, so it exists once; a correction is part of the hour in which it was
booked and never changes an earlier line. The value is a whole number of nano-USD, negative where corrections exceed the
usage: the meter sums, and its price is 0.0000001 cents per unit.

Stripe takes a timestamp of the last 35 days, names and identifiers of up to 100 characters, whole numbers, 1,000 calls a
second and one at a time for each customer. Projects that had no customer when the period closed have no lines; the
manifest sums them up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from gateway.db import WriteConnection
from gateway.exports.formats import Writer
from gateway.exports.repository.events import stripe_rows
from gateway.exports.types import ExportRow, ExportSpec, Position, Tally

__all__ = ["EVENT_NAME", "STRIPE", "MeterLine", "identifier", "is_line"]

EVENT_NAME = "tollway_nanousd"
"""What the meter at Stripe must be called."""
IDENTIFIER_CHARS_MAX = 100


@dataclass(frozen=True, slots=True)
class _StripeFormat:
    suffix: str = "jsonl"
    sums: tuple[str, ...] = ("events", "amount_nanousd")
    has_parts: bool = False

    def rows(
        self, connection: WriteConnection, spec: ExportSpec, after: Position | None
    ) -> AsyncIterator[Sequence[ExportRow]]:
        return stripe_rows(connection, spec)

    def open(self, path: Path, spec: ExportSpec) -> Writer:
        return _StripeWriter(path)

    def add(self, tally: Tally, rows: Sequence[ExportRow]) -> None:
        for row in rows:
            sums = tally.setdefault(
                row["tenant_id"], {"events": 0, "amount_nanousd": 0, "nanousd_without_customer": 0}
            )
            sums["events"] += row["events"]
            sums["amount_nanousd"] += row["amount_nanousd"]
            if row["customer_id"] is None:
                sums["nanousd_without_customer"] += row["amount_nanousd"]

    def notes(self, tally: Tally) -> Mapping[str, Any]:
        without = {tenant: sums["nanousd_without_customer"] for tenant, sums in sorted(tally.items())}
        return {
            "event_name": EVENT_NAME,
            "nanousd_without_customer": {tenant: amount for tenant, amount in without.items() if amount},
        }


STRIPE = _StripeFormat()


@dataclass(frozen=True, slots=True)
class MeterLine:
    """One line of the file."""

    event_name: str
    identifier: str
    happened_at: datetime
    customer_id: str
    tenant_id: str
    amount_nanousd: int

    @classmethod
    def read(cls, line: bytes) -> MeterLine:
        event = orjson.loads(line)
        payload = event["payload"]
        return cls(
            event["event_name"],
            event["identifier"],
            datetime.fromtimestamp(event["timestamp"], UTC),
            payload["stripe_customer_id"],
            payload["project_id"],
            int(payload["value"]),
        )

    def fields(self) -> dict[str, str]:
        """As Stripe's endpoint takes them."""
        return {
            "event_name": self.event_name,
            "identifier": self.identifier,
            "timestamp": str(int(self.happened_at.timestamp())),
            "payload[stripe_customer_id]": self.customer_id,
            "payload[value]": str(self.amount_nanousd),
            "payload[project_id]": self.tenant_id,
        }


class _StripeWriter:
    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.rows = 0

    def write(self, rows: Sequence[ExportRow]) -> None:
        lines = [_line(row) for row in rows if is_line(row)]
        self._file.write(b"".join(lines))
        self.rows += len(lines)

    def close(self) -> None:
        self._file.close()


def is_line(row: ExportRow) -> bool:
    """An hour that came out even needs no delta."""
    return row["customer_id"] is not None and row["amount_nanousd"] != 0


def identifier(tenant_id: str, hour: datetime) -> str:
    made = f"{EVENT_NAME}-{tenant_id}-{hour.astimezone(UTC):%Y%m%dT%HZ}"
    assert len(made) <= IDENTIFIER_CHARS_MAX, "a project's id is short"
    return made


def _line(row: ExportRow) -> bytes:
    event = {
        "event_name": EVENT_NAME,
        "identifier": identifier(row["tenant_id"], row["hour"]),
        "timestamp": int(row["hour"].timestamp()),
        "payload": {
            "stripe_customer_id": row["customer_id"],
            "value": str(row["amount_nanousd"]),
            "project_id": row["tenant_id"],
        },
    }
    return orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE)
