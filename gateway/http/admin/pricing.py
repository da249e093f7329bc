"""Prices: insert-only rows per sku and component, in nano-USD per token, written as decimal strings."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import AwareDatetime, Field

from gateway.errors import Conflict
from gateway.http.admin.common import AdminParts, Body, Json, Page, page_of, record, unix
from gateway.routing.repository import RoutingRepository
from gateway.routing.target import PriceRow

__all__ = ["PriceRoutes"]

Nanousd = Annotated[Decimal, Field(ge=0, max_digits=18, decimal_places=6)]


class PriceBody(Body):
    """Zero is a price too, but has to be said. `valid_from`: now, when not given."""

    sku: str = Field(min_length=1, max_length=200)
    input_nanousd_per_token: Nanousd
    cached_input_nanousd_per_token: Nanousd
    output_nanousd_per_token: Nanousd
    valid_from: AwareDatetime | None = None


class PriceRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._routing = RoutingRepository()

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/prices", self.create, methods=["POST"])
        router.add_api_route("/prices", self.list, methods=["GET"])

    async def create(self, request: Request, body: PriceBody) -> Page:
        valid_from: datetime = body.valid_from or self._p.clock.now()
        prices = {
            "input": body.input_nanousd_per_token,
            "cached_input": body.cached_input_nanousd_per_token,
            "output": body.output_nanousd_per_token,
        }
        async with self._p.database.write() as session:
            rows = await self._routing.insert_prices(session, body.sku, valid_from, prices)
            if not rows:
                raise Conflict("The sku has a price from that instant on already: prices are never changed.")
            details = body.model_dump(mode="json")
            await record(self._p, session, request, "price.created", ("price", body.sku), None, details)
        return page_of([_price(row) for row in rows], len(rows))

    async def list(self, sku: Annotated[str | None, Query(max_length=200)] = None) -> Page:
        async with self._p.database.read() as session:
            rows = await self._routing.prices(session, sku)
        return page_of([_price(row) for row in rows], len(rows))


def _price(row: PriceRow) -> Json:
    return {
        "object": "organization.price",
        "id": str(row.id),
        "sku": row.sku,
        "component": row.component,
        "valid_from": unix(row.valid_from),
        "nanousd_per_token": format(row.nanousd_per_token, "f"),
    }
