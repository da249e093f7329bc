"""Prices: insert-only rows per sku and component, in nano-USD per token, written as decimal strings.

A version is all components of a sku from one instant on, until the next version; it is never changed. A request pays
what is in force when it is admitted, and its event names the rows. A version announced two seconds ahead takes effect
at its instant on every gateway; one that begins now does when the gateway has heard of it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import ROUND_DOWN, Decimal
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import AfterValidator, AwareDatetime, Field

from gateway.errors import Conflict, InvalidValue
from gateway.http.admin.common import AdminParts, After, Body, Json, Limit, Page, page_of, record, unix
from gateway.routing.repository import RoutingRepository
from gateway.routing.target import PriceFilter, PriceRow

__all__ = ["PriceRoutes"]

Nanousd = Annotated[Decimal, Field(ge=0, le=10**9, max_digits=18, decimal_places=6)]
"""A dollar per token at most: sums of many requests stay far below what a bigint holds."""

Component = Literal["input", "cached_input", "output", "batch_input", "batch_cached_input", "batch_output"]
_SMALLEST = Decimal("0.000001")


def _writable(at: datetime) -> datetime:
    """In UTC; an instant within a day of the calendar's ends cannot be written in each zone."""
    if not 1970 <= at.year < 3000:
        raise ValueError("the year must be between 1970 and 2999")
    return at.astimezone(UTC)


class PriceBody(Body):
    """Zero is a price too, but has to be said. `valid_from`: now, when not given. Requests of class `batch` pay
    `batch_factor` times the price, unless their price is given itself."""

    sku: str = Field(min_length=1, max_length=200)
    input_nanousd_per_token: Nanousd
    cached_input_nanousd_per_token: Nanousd
    output_nanousd_per_token: Nanousd
    batch_factor: Decimal = Field(default=Decimal("0.5"), ge=0, le=1, max_digits=7, decimal_places=6)
    batch_input_nanousd_per_token: Nanousd | None = None
    batch_cached_input_nanousd_per_token: Nanousd | None = None
    batch_output_nanousd_per_token: Nanousd | None = None
    valid_from: Annotated[AwareDatetime, AfterValidator(_writable)] | None = None

    def components(self) -> dict[str, Decimal]:
        plain = {
            "input": (self.input_nanousd_per_token, self.batch_input_nanousd_per_token),
            "cached_input": (self.cached_input_nanousd_per_token, self.batch_cached_input_nanousd_per_token),
            "output": (self.output_nanousd_per_token, self.batch_output_nanousd_per_token),
        }
        ordinary = {name: price for name, (price, _) in plain.items()}
        batch = {
            f"batch_{name}": self._batch(price) if given is None else given
            for name, (price, given) in plain.items()
        }
        return ordinary | batch

    def _batch(self, price: Decimal) -> Decimal:
        """Rounded in the caller's favour, as money.py does."""
        return (price * self.batch_factor).quantize(_SMALLEST, rounding=ROUND_DOWN)


class PriceRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._routing = RoutingRepository()

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/prices", self.create, methods=["POST"])
        router.add_api_route("/prices", self.list, methods=["GET"])

    async def create(self, request: Request, body: PriceBody) -> Page:
        now = self._p.clock.now()
        valid_from: datetime = body.valid_from or now
        prices = body.components()
        async with self._p.database.write() as session:
            known = await self._routing.price_starts(session, body.sku)
            rows = await self._routing.insert_prices(session, body.sku, valid_from, prices)
            if len(rows) < len(prices):
                raise Conflict(
                    "The sku has a price from that instant on already, and prices are never changed. "
                    "To replace it, add one that begins a moment later."
                )
            if known and valid_from < now:
                raise InvalidValue(
                    "A price cannot begin in the past: requests have been charged by the one before it.",
                    "valid_from",
                )
            details = {
                "after": {row.component: _exact(row.nanousd_per_token) for row in rows},
                "valid_from": valid_from.isoformat(),
            }
            await record(self._p, session, request, "price.created", ("price", body.sku), None, details)
        return page_of([_price(row) for row in rows], len(rows))

    async def list(
        self,
        sku: Annotated[str | None, Query(max_length=200)] = None,
        component: Component | None = None,
        at: Annotated[int | None, Query(ge=0, le=1 << 35)] = None,
        limit: Limit = 20,
        after: After = None,
    ) -> Page:
        """The history, newest first; with `at` (Unix seconds) only what is in force then."""
        wanted = PriceFilter(sku, component, datetime.fromtimestamp(at, UTC) if at is not None else None)
        async with self._p.database.read() as session:
            rows = await self._routing.prices(session, wanted, _cursor(after), limit + 1)
        return page_of([_price(row) for row in rows], limit)


def _cursor(after: str | None) -> int | None:
    if after is None:
        return None
    if not after.isascii() or not after.isdecimal() or len(after) > 18:
        raise InvalidValue("This is no price id.", "after")
    return int(after)


def _price(row: PriceRow) -> Json:
    return {
        "object": "organization.price",
        "id": str(row.id),
        "sku": row.sku,
        "component": row.component,
        "valid_from": unix(row.valid_from),
        "valid_until": unix(row.valid_until),
        "nanousd_per_token": _exact(row.nanousd_per_token),
    }


def _exact(nanousd_per_token: Decimal) -> str:
    return format(nanousd_per_token, "f")
