"""FOCUS 1.2 (FinOps Open Cost and Usage Specification) as CSV: hourly charges per project, key, model and price.

What the specification leaves to us:
- A sub account is a project, by its id: names change, exported bytes do not.
- A SKU price is sku/component; the version of the price that was charged is in x_PriceId.
- BilledCost is the ledger's, rounded down to nano-USD event by event; ListCost and ContractedCost are quantity times
  unit price, which FOCUS wants exact, and so may lie above it by less than a nano-USD per event and component.
- A correction within the month of what it corrects is an Adjustment without quantities, since FOCUS allows no negative
  consumption there. A correction of an earlier month's charge, and usage that came when its month was closed, is
  ChargeClass "Correction" in the open month. Credits are Credits. Each is a row of its own.
Tokens of every row, adjustments included, are in x_Tokens, its exact amount in x_BilledCostNanousd.
"""

from __future__ import annotations

import csv
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import orjson

from gateway.db import WriteConnection
from gateway.exports.columns import Column
from gateway.exports.csv import cell
from gateway.exports.formats import Writer
from gateway.exports.repository.events import focus_rows
from gateway.exports.types import ExportRow, ExportSpec, Position, Tally

__all__ = ["FOCUS"]

ISSUER = "Tollway"
BILLING_ACCOUNT = "tollway"
_METERS = {"input": "Input tokens", "cached_input": "Cached input tokens", "output": "Output tokens"}
_SUMS = {
    "input": ("prompt_uncached_tokens", "input_nanousd"),
    "cached_input": ("prompt_cached_tokens", "cached_input_nanousd"),
    "output": ("completion_tokens", "output_nanousd"),
    "adjustment": (None, "adjustment_nanousd"),
}
_HOUR = timedelta(hours=1)
_DIGITS = 60
"""More than 18 of a price and 19 of a sum of tokens have together: the product is exact."""


@dataclass(frozen=True, slots=True)
class _FocusFormat:
    suffix: str = "csv"
    sums: tuple[str, ...] = (*(name for pair in _SUMS.values() for name in pair if name), "amount_nanousd")
    has_parts: bool = False

    def rows(
        self, connection: WriteConnection, spec: ExportSpec, after: Position | None
    ) -> AsyncIterator[Sequence[ExportRow]]:
        return focus_rows(connection, spec)

    def open(self, path: Path, spec: ExportSpec) -> Writer:
        return _FocusWriter(path)

    def add(self, tally: Tally, rows: Sequence[ExportRow]) -> None:
        for row in rows:
            sums = tally.setdefault(row["tenant_id"], dict.fromkeys(self.sums, 0))
            tokens, nanousd = _SUMS[row["component"]]
            if tokens is not None:
                sums[tokens] += row["tokens"]
            sums[nanousd] += row["nanousd"]
            sums["amount_nanousd"] += row["nanousd"]

    def notes(self, tally: Tally) -> Mapping[str, Any]:
        return {"specification": "FOCUS 1.2"}


FOCUS = _FocusFormat()


class _FocusWriter:
    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._csv = csv.writer(self._file)
        self._csv.writerow(_COLUMNS)
        self.rows = 0

    def write(self, rows: Sequence[ExportRow]) -> None:
        for row in rows:
            charge = _Charge(row)
            self._csv.writerow([_cell(value(charge)) for value in _COLUMNS.values()])
        self.rows += len(rows)

    def close(self) -> None:
        self._file.close()


class _Charge:
    """One row of sums, as FOCUS sees it."""

    def __init__(self, row: ExportRow) -> None:
        self.row = row
        self.billed = _usd(row["nanousd"])
        self.is_late = bool(row["is_of_earlier_month"])
        self.category = self._category()
        self.is_usage = self.category == "Usage"
        self.sku = row["sku"] if self.is_usage else None
        self.unit_price = _unit_price(row["nanousd_per_token"]) if self.sku is not None else None
        self.quantity = Decimal(row["tokens"]) if self.is_usage else None

    @property
    def exact_cost(self) -> Decimal:
        if self.unit_price is None or self.quantity is None:
            return self.billed
        return Context(prec=_DIGITS).multiply(self.unit_price, self.quantity)

    def described(self) -> str:
        row = self.row
        if row["component"] == "adjustment":
            return "Credit" if row["kind"] == "credit" else f"Adjustment of {row['served_model']}"
        correction = "Correction of " if row["is_correction"] else ""
        return f"{correction}{_METERS[row['component']]} of {row['served_model']}, {row['request_class']}"

    def _category(self) -> str:
        if self.row["kind"] == "credit":
            return "Credit"
        by_hand = self.row["component"] == "adjustment"
        return "Adjustment" if by_hand or (self.row["is_correction"] and not self.is_late) else "Usage"


def _usd(nanousd: int) -> Decimal:
    return Decimal(nanousd).scaleb(-9)


def _unit_price(nanousd_per_token: Decimal) -> Decimal:
    return nanousd_per_token.scaleb(-9)


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _next_month(month: datetime) -> datetime:
    return (month + timedelta(days=31)).replace(day=1)


def _cell(value: Decimal | int | str | None) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    return cell(_NUMBER if isinstance(value, int) else _TEXT, value)


_NUMBER, _TEXT = Column("", "", "integer"), Column("", "", "text")

# In alphabetical order, as the specification presents them; columns of our own last.
_COLUMNS: dict[str, Callable[[_Charge], Decimal | int | str | None]] = {
    "BilledCost": lambda charge: charge.billed,
    "BillingAccountId": lambda _: BILLING_ACCOUNT,
    "BillingAccountName": lambda _: ISSUER,
    "BillingCurrency": lambda _: "USD",
    "BillingPeriodEnd": lambda charge: _time(_next_month(charge.row["billing_month"])),
    "BillingPeriodStart": lambda charge: _time(charge.row["billing_month"]),
    "ChargeCategory": lambda charge: charge.category,
    "ChargeClass": lambda charge: "Correction" if charge.is_late else None,
    "ChargeDescription": lambda charge: charge.described(),
    "ChargeFrequency": lambda charge: "Usage-Based" if charge.is_usage else "One-Time",
    "ChargePeriodEnd": lambda charge: _time(charge.row["hour"] + _HOUR),
    "ChargePeriodStart": lambda charge: _time(charge.row["hour"]),
    "ConsumedQuantity": lambda charge: charge.quantity,
    "ConsumedUnit": lambda charge: "Tokens" if charge.is_usage else None,
    "ContractedCost": lambda charge: charge.exact_cost,
    "ContractedUnitPrice": lambda charge: charge.unit_price,
    "EffectiveCost": lambda charge: charge.billed,
    "InvoiceId": lambda _: None,
    "InvoiceIssuerName": lambda _: ISSUER,
    "ListCost": lambda charge: charge.exact_cost,
    "ListUnitPrice": lambda charge: charge.unit_price,
    "PricingCategory": lambda charge: "Standard" if charge.is_usage else None,
    "PricingQuantity": lambda charge: charge.quantity,
    "PricingUnit": lambda charge: "Tokens" if charge.is_usage else None,
    "ProviderName": lambda _: ISSUER,
    "PublisherName": lambda _: ISSUER,
    "ServiceCategory": lambda _: "AI and Machine Learning",
    "ServiceName": lambda _: "Model inference",
    "ServiceSubcategory": lambda _: "Generative AI",
    "SkuId": lambda charge: charge.sku,
    "SkuMeter": lambda charge: _METERS[charge.row["component"]] if charge.sku else None,
    "SkuPriceDetails": lambda charge: _details(charge) if charge.sku else None,
    "SkuPriceId": lambda charge: f"{charge.sku}/{charge.row['price_component']}" if charge.sku else None,
    "SubAccountId": lambda charge: charge.row["tenant_id"],
    "SubAccountName": lambda charge: charge.row["tenant_id"],
    "SubAccountType": lambda _: "Project",
    "x_ApiKeyId": lambda charge: charge.row["key_id"] or None,
    "x_BilledCostNanousd": lambda charge: charge.row["nanousd"],
    "x_IsCorrection": lambda charge: "true" if charge.row["is_correction"] else "false",
    "x_Model": lambda charge: charge.row["served_model"] or None,
    "x_PoolId": lambda charge: charge.row["pool_id"] or None,
    "x_PriceId": lambda charge: charge.row["price_id"] if charge.sku else None,
    "x_RequestClass": lambda charge: charge.row["request_class"] or None,
    "x_Tokens": lambda charge: charge.row["tokens"],
}


def _details(charge: _Charge) -> str:
    return orjson.dumps({"x_Component": charge.row["price_component"]}).decode()
