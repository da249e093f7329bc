"""The rules of FOCUS 1.2 for a dataset like ours, as a table and as conditions on rows. Written from the specification,
not from the code that it checks.

Mandatory columns, and the conditional and recommended ones whose condition holds here: usage is measured, unit prices
and price lists are published, SKUs and sub accounts exist. Not here: commitments, capacity reservations, regions,
resources, tags, several currencies, several pricing categories' worth of accounts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

__all__ = ["COLUMNS", "broken_rules"]

Row = dict[str, str | None]


@dataclass(frozen=True)
class Rule:
    level: str
    type: str
    nullable: bool
    allowed: tuple[str, ...] = ()


_CATEGORIES = ("Usage", "Purchase", "Tax", "Credit", "Adjustment")
_SERVICES = (
    *(
        "AI and Machine Learning",
        "Analytics",
        "Business Applications",
        "Compute",
        "Databases",
        "Developer Tools",
    ),
    *("Multicloud", "Identity", "Integration", "Internet of Things", "Management and Governance", "Media"),
    *("Migration", "Mobile", "Networking", "Security", "Storage", "Web", "Other"),
)
_AI = ("AI Platforms", "Bots", "Generative AI", "Machine Learning", "Natural Language Processing")
COLUMNS = {
    "BilledCost": Rule("mandatory", "decimal", False),
    "BillingAccountId": Rule("mandatory", "string", False),
    "BillingAccountName": Rule("mandatory", "string", True),
    "BillingCurrency": Rule("mandatory", "currency", False, ("USD",)),
    "BillingPeriodEnd": Rule("mandatory", "datetime", False),
    "BillingPeriodStart": Rule("mandatory", "datetime", False),
    "ChargeCategory": Rule("mandatory", "string", False, _CATEGORIES),
    "ChargeClass": Rule("mandatory", "string", True, ("Correction",)),
    "ChargeDescription": Rule("mandatory", "string", True),
    "ChargeFrequency": Rule("recommended", "string", False, ("One-Time", "Recurring", "Usage-Based")),
    "ChargePeriodEnd": Rule("mandatory", "datetime", False),
    "ChargePeriodStart": Rule("mandatory", "datetime", False),
    "ConsumedQuantity": Rule("conditional", "decimal", True),
    "ConsumedUnit": Rule("conditional", "string", True),
    "ContractedCost": Rule("mandatory", "decimal", False),
    "ContractedUnitPrice": Rule("conditional", "decimal", True),
    "EffectiveCost": Rule("mandatory", "decimal", False),
    "InvoiceId": Rule("recommended", "string", True),
    "InvoiceIssuerName": Rule("mandatory", "string", False),
    "ListCost": Rule("mandatory", "decimal", False),
    "ListUnitPrice": Rule("conditional", "decimal", True),
    "PricingCategory": Rule("conditional", "string", True, ("Standard", "Dynamic", "Committed", "Other")),
    "PricingQuantity": Rule("mandatory", "decimal", True),
    "PricingUnit": Rule("mandatory", "string", True),
    "ProviderName": Rule("mandatory", "string", False),
    "PublisherName": Rule("mandatory", "string", False),
    "ServiceCategory": Rule("mandatory", "string", False, _SERVICES),
    "ServiceName": Rule("mandatory", "string", False),
    "ServiceSubcategory": Rule("recommended", "string", False, (*_AI, "Other (AI and Machine Learning)")),
    "SkuId": Rule("conditional", "string", True),
    "SkuMeter": Rule("conditional", "string", True),
    "SkuPriceDetails": Rule("conditional", "json", True),
    "SkuPriceId": Rule("conditional", "string", True),
    "SubAccountId": Rule("conditional", "string", True),
    "SubAccountName": Rule("conditional", "string", True),
    "SubAccountType": Rule("conditional", "string", True),
}
_FORMATS = {
    "string": lambda value: value == value.strip() and value != "",
    "currency": lambda value: re.fullmatch(r"[A-Z]{3}", value),
    "decimal": lambda value: re.fullmatch(r"-?\d+(\.\d+)?([Ee][+-]?\d+)?", value),
    "datetime": lambda value: re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value),
    "json": lambda value: isinstance(json.loads(value), dict),
}
_QUANTITIES = (
    "PricingQuantity",
    "PricingUnit",
    "ListUnitPrice",
    "ContractedUnitPrice",
    "SkuPriceId",
    "PricingCategory",
)
_CONSUMED = ("ConsumedQuantity", "ConsumedUnit")
_DEFAULT_COSTS = ("ListCost", "ContractedCost", "EffectiveCost")


def broken_rules(header: list[str], rows: list[Row]) -> list[str]:
    """Empty if the dataset conforms."""
    broken = [f"{name} is missing" for name in COLUMNS if name not in header]
    broken += [
        f"{name} is no FOCUS column and has no x_"
        for name in header
        if name not in COLUMNS and name[:2] != "x_"
    ]
    broken += [f"{name} is there twice" for name in header if header.count(name) > 1]
    for number, row in enumerate(rows):
        for name, rule in COLUMNS.items():
            broken += [f"row {number}: {name}: {what}" for what in _broken_value(rule, row[name])]
        broken += [f"row {number}: {what}" for what, holds in _CONDITIONS.items() if not holds(row)]
    return broken


def _broken_value(rule: Rule, value: str | None) -> list[str]:
    if value is None:
        return [] if rule.nullable else ["is null"]
    broken = [] if _FORMATS[rule.type](value) else [f"{value!r} is no {rule.type}"]
    return broken + ([f"{value!r} is not allowed"] if rule.allowed and value not in rule.allowed else [])


def _is_plain_charge(row: Row) -> bool:
    return row["ChargeCategory"] in ("Usage", "Purchase") and row["ChargeClass"] is None


def _times(row: Row, price: str, quantity: str, cost: str) -> bool:
    a, b = row[price], row[quantity]
    if a is None or b is None or row["ChargeClass"] == "Correction":
        return True
    return Decimal(a) * Decimal(b) == Decimal(str(row[cost]))


def _both_or_neither(row: Row, one: str, other: str) -> bool:
    return (row[one] is None) == (row[other] is None)


_CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "a plain charge has quantity, unit, prices, SKU price and pricing category": lambda row: (
        not _is_plain_charge(row) or all(row[name] is not None for name in _QUANTITIES)
    ),
    "plain usage has a consumed quantity, and it is positive": lambda row: (
        row["ChargeCategory"] != "Usage"
        or row["ChargeClass"] is not None
        or (row["ConsumedQuantity"] is not None and Decimal(row["ConsumedQuantity"]) > 0)
    ),
    "only usage is consumed": lambda row: (
        row["ChargeCategory"] == "Usage" or all(row[name] is None for name in _CONSUMED)
    ),
    "a quantity has a unit": lambda row: (
        _both_or_neither(row, "ConsumedQuantity", "ConsumedUnit")
        and _both_or_neither(row, "PricingQuantity", "PricingUnit")
    ),
    "list unit price × quantity = list cost": lambda row: _times(
        row, "ListUnitPrice", "PricingQuantity", "ListCost"
    ),
    "contracted unit price × quantity = contracted cost": lambda row: _times(
        row, "ContractedUnitPrice", "PricingQuantity", "ContractedCost"
    ),
    "without a unit price all costs are the billed one": lambda row: (
        row["ListUnitPrice"] is not None or all(row[name] == row["BilledCost"] for name in _DEFAULT_COSTS)
    ),
    "unit prices are not negative": lambda row: (
        Decimal(row["ListUnitPrice"] or 0) >= 0 and Decimal(row["ContractedUnitPrice"] or 0) >= 0
    ),
    "a purchase is not usage-based": lambda row: (
        row["ChargeCategory"] != "Purchase" or row["ChargeFrequency"] != "Usage-Based"
    ),
    "periods begin before they end": lambda row: (
        str(row["ChargePeriodStart"]) < str(row["ChargePeriodEnd"])
        and str(row["BillingPeriodStart"]) < str(row["BillingPeriodEnd"])
    ),
    "a SKU's meter, price and details come with the SKU": lambda row: (
        _both_or_neither(row, "SkuId", "SkuPriceId")
        and _both_or_neither(row, "SkuId", "SkuMeter")
        and (row["SkuPriceDetails"] is None or row["SkuPriceId"] is not None)
    ),
    "a sub account has a name and a type": lambda row: (
        _both_or_neither(row, "SubAccountId", "SubAccountName")
        and _both_or_neither(row, "SubAccountId", "SubAccountType")
    ),
}
