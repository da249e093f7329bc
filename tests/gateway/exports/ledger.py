"""Fills a test ledger with plain SQL, and says what it must add up to."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from gateway.exports.types import ExportSpec, FormatName, Period
from gateway.ledger.models import UsageEvent
from tests.gateway.books import Books

DAY = datetime(2026, 1, 10, tzinfo=UTC)
TENANTS = ("proj_a", "proj_b", "=cmd()")
STATUSES = ("ok", "partial", "cancelled", "error", "unknown")
FIELDS = (
    "prompt_uncached_tokens",
    "prompt_cached_tokens",
    "completion_tokens",
    "input_nanousd",
    "cached_input_nanousd",
    "output_nanousd",
    "adjustment_nanousd",
    "amount_nanousd",
)
_NAMES = tuple(column.name for column in UsageEvent.__table__.columns)
_EVENT: dict[str, Any] = {
    "key_id": "key_a",
    "user_ref": None,
    "served_model": "tiny",
    "route_id": "route_a",
    "pool_id": "pool_a",
    "endpoint": "chat.completions",
    "request_class": "interactive",
    "is_stream": False,
    "status": "ok",
    "error_code": None,
    "reasoning_tokens": 0,
    "over_hold_nanousd": 0,
    "queue_ms": 1,
    "ttft_ms": 2,
    "e2e_ms": None,
    "tpot_us": 1500,
    "client_retry_count": 0,
    "corrects": None,
    "late_from": None,
    "kind": "request",
}


class Ledger:
    """Made by `of`; its ids are numbers, so that a test's data is the same each time."""

    def __init__(self, books: Books, prices: dict[str, int]) -> None:
        self.books = books
        self.prices = prices
        self._next = 1
        self._rows: list[dict[str, Any]] = []

    @classmethod
    async def of(cls, books: Books) -> Ledger:
        await books.run("SELECT ensure_usage_partitions('2025-12-01', 4)")
        for tenant in TENANTS[1:]:
            await books.add_tenant(tenant)
        for component, price in {"batch_input": 50, "batch_cached_input": 5, "batch_output": "200.5"}.items():
            await books.run(
                "INSERT INTO price (sku, component, valid_from, nanousd_per_token)"
                f" VALUES ('tiny', :component, '2026-01-01Z', {price})",
                component=component,
            )
        rows = await books.rows("SELECT component, id FROM price")
        return cls(books, {row[0]: row[1] for row in rows})

    def event(
        self,
        at: datetime,
        tenant: str = "proj_a",
        tokens: tuple[int, int, int] = (10, 0, 5),
        *,
        recorded_after: timedelta = timedelta(seconds=1),
        adjustment: int = 0,
        **changes: Any,
    ) -> UUID:
        event_id = UUID(int=self._next)
        batch = "batch_" if changes.get("request_class") == "batch" else ""
        unit = {"": (100, 10, 400), "batch_": (50, 5, 200.5)}[batch]
        money = [int(count * price) for count, price in zip(tokens, unit, strict=True)]
        row = {
            **_EVENT,
            "occurred_at": at,
            "recorded_at": at + recorded_after,
            "event_id": event_id,
            "request_id": f"req_{self._next}",
            "tenant_id": tenant,
            "prompt_uncached_tokens": tokens[0],
            "prompt_cached_tokens": tokens[1],
            "completion_tokens": tokens[2],
            "input_nanousd": money[0],
            "cached_input_nanousd": money[1],
            "output_nanousd": money[2],
            "adjustment_nanousd": adjustment,
            "amount_nanousd": sum(money) + adjustment,
            "price_input_id": self.prices[f"{batch}input"],
            "price_cached_input_id": self.prices[f"{batch}cached_input"],
            "price_output_id": self.prices[f"{batch}output"],
            **changes,
        }
        self._rows.append(row)
        self._next += 1
        return event_id

    async def write(self) -> None:
        """What `event` has gathered, in one statement."""
        rows, self._rows = self._rows, []
        names = ", ".join(_NAMES)
        await self.books.run(
            f"INSERT INTO usage_event ({names}) SELECT {names}"
            " FROM json_populate_recordset(CAST(NULL AS usage_event), CAST(:rows AS json))",
            rows=msgspec.json.encode(rows).decode(),
        )

    async def fill(self, days: int = 1, seed: int = 7) -> None:
        """A few events of every sort on each day from `DAY` on."""
        draw = random.Random(seed)
        print("seed", seed)
        for day in range(days):
            midnight = DAY + timedelta(days=day)
            first = self.event(midnight, tokens=(100, 40, 7))
            for tenant in TENANTS:
                for number, status in enumerate(STATUSES):
                    at = midnight + timedelta(seconds=draw.randrange(86_400), microseconds=number)
                    self.event(
                        at,
                        tenant,
                        (draw.randrange(500), draw.randrange(50), draw.randrange(100)),
                        status=status,
                        error_code="+1" if status == "error" else None,
                        user_ref="@someone" if number % 2 else None,
                        request_class=draw.choice(("interactive", "batch")),
                    )
            self.event(midnight + timedelta(hours=3), tokens=(-60, 0, -7), corrects=first)
            self.event(
                midnight + timedelta(hours=4),
                tokens=(0, 0, 0),
                adjustment=-11,
                corrects=first,
                kind="adjustment",
            )
            nobody = {"key_id": "", "served_model": "", "route_id": "", "pool_id": "", "endpoint": ""}
            none = {"price_input_id": 0, "price_cached_input_id": 0, "price_output_id": 0}
            self.event(
                midnight + timedelta(hours=5),
                "proj_b",
                (0, 0, 0),
                adjustment=-500,
                kind="credit",
                **nobody,
                **none,
            )
        await self.write()

    async def close_months(self, until: str) -> None:
        """The months before `until` (SQL) are closed, as far as anybody can tell."""
        await self.books.run(
            "INSERT INTO billing_period (period_key, starts_at, ends_at, requests, tokens, amount_nanousd)"
            f" SELECT 'all', '2000-01-01Z', date_trunc('month', {until}, 'UTC'), 0, 0, 0"
        )

    async def sums(self, where: str = "true") -> dict[str, dict[str, int]]:
        """Per tenant, straight from the table."""
        sums = ", ".join(f"sum({name})::bigint" for name in FIELDS)
        rows = await self.books.rows(f"SELECT tenant_id, {sums} FROM usage_event WHERE {where} GROUP BY 1")
        return {row[0]: dict(zip(FIELDS, row[1:], strict=True)) for row in rows}


def spec(format: FormatName = "csv", days: int = 1, tenant_id: str | None = None) -> ExportSpec:
    return ExportSpec(format, Period(DAY.date(), DAY.date() + timedelta(days=days)), tenant_id)
