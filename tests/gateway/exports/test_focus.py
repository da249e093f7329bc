"""FOCUS 1.2: every exported row against the table of rules, and the sums against the ledger."""

from __future__ import annotations

import csv
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import orjson

from gateway.db import Database
from gateway.exports.csv import text_of
from gateway.exports.service import export
from gateway.exports.store import DirectoryStore
from gateway.exports.types import ExportSpec, Period
from tests.gateway.exports.focus_rules import COLUMNS, Row, broken_rules
from tests.gateway.exports.ledger import DAY, Ledger, spec

MONTH = Period(datetime(2026, 2, 1).date(), datetime(2026, 3, 1).date())


async def _exported(database: Database, root: Path, wanted: ExportSpec) -> tuple[list[str], list[Row]]:
    await export(database, DirectoryStore(root), wanted, lambda done, total: None)
    with (root / wanted.prefix / "part-00001.csv").open(newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    return header, [dict(zip(header, map(text_of, line), strict=True)) for line in lines]


async def test_every_row_conforms_and_the_sums_are_the_ledgers(
    database: Database, ledger: Ledger, tmp_path: Path
) -> None:
    await ledger.fill(days=2)
    header, rows = await _exported(database, tmp_path, spec("focus", days=2))
    assert broken_rules(header, rows) == []
    assert {row["ChargeCategory"] for row in rows} == {"Usage", "Adjustment", "Credit"}
    assert {row["SkuPriceId"] for row in rows} >= {
        "tiny/input",
        "tiny/batch_output",
        "tiny/cached_input",
        None,
    }
    sums: dict[str | None, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        assert Decimal(str(row["BilledCost"])) * 10**9 == int(str(row["x_BilledCostNanousd"]))
        sums[row["SubAccountId"]][0] += int(str(row["x_BilledCostNanousd"]))
        sums[row["SubAccountId"]][1] += int(str(row["x_Tokens"]))
    tokens = ("prompt_uncached_tokens", "prompt_cached_tokens", "completion_tokens")
    assert dict(sums) == {
        tenant: [one["amount_nanousd"], sum(one[name] for name in tokens)]
        for tenant, one in (await ledger.sums()).items()
    }
    manifest = orjson.loads((tmp_path / spec("focus", days=2).prefix / "manifest.json").read_bytes())
    assert manifest["specification"] == "FOCUS 1.2"
    assert manifest["rows"] == len(rows)


async def test_corrections_of_an_invoiced_month_are_corrections(
    database: Database, ledger: Ledger, tmp_path: Path
) -> None:
    """In February, of January: usage that came late, a correction and an adjustment. Of February: adjustments."""
    january, february = datetime(2026, 1, 20, 10, tzinfo=UTC), datetime(2026, 2, 3, 10, tzinfo=UTC)
    old, young = ledger.event(january, request_id="req_old"), ledger.event(february, request_id="req_young")
    ledger.event(february, late_from=january)
    for corrected, request_id, late_from in ((old, "req_old", january), (young, "req_young", None)):
        again = {"corrects": corrected, "request_id": request_id}
        ledger.event(february, tokens=(-1, 0, -1), late_from=late_from, **again)
        ledger.event(february, tokens=(0, 0, 0), adjustment=-1, kind="adjustment", **again)
    await ledger.write()
    await ledger.close_months(until="'2026-03-01Z'::timestamptz")
    header, rows = await _exported(database, tmp_path, ExportSpec("focus", MONTH))
    assert broken_rules(header, rows) == []
    assert {row["BillingPeriodStart"] for row in rows} == {"2026-02-01T00:00:00Z"}
    found = sorted(
        (str(row["ChargePeriodStart"])[:7], row["ChargeCategory"], row["ChargeClass"] or "", row["x_Tokens"])
        for row in rows
    )
    assert found == [
        ("2026-01", "Usage", "Correction", "-1"),
        ("2026-01", "Usage", "Correction", "-1"),
        ("2026-01", "Usage", "Correction", "10"),
        ("2026-01", "Usage", "Correction", "5"),
        ("2026-02", "Adjustment", "", "-1"),
        ("2026-02", "Adjustment", "", "-1"),
        ("2026-02", "Adjustment", "", "0"),
        ("2026-02", "Adjustment", "Correction", "0"),
        ("2026-02", "Usage", "", "10"),
        ("2026-02", "Usage", "", "5"),
    ]


async def test_fractional_prices_are_exact_in_list_cost(
    database: Database, ledger: Ledger, tmp_path: Path
) -> None:
    """200.5 nano-USD per token: the ledger rounds each event down, quantity × price does not."""
    for number in range(3):
        ledger.event(DAY + timedelta(minutes=number), tokens=(0, 0, 1), request_class="batch")
    await ledger.write()
    _, (row,) = await _exported(database, tmp_path, spec("focus"))
    assert row["BilledCost"] == "0.000000600"
    assert Decimal(str(row["ListCost"])) == Decimal("0.0000006015")
    assert Decimal(str(row["ListUnitPrice"])) == Decimal("0.0000002005")


async def test_the_rules_find_what_is_wrong(database: Database, ledger: Ledger, tmp_path: Path) -> None:
    ledger.event(DAY, tokens=(5, 0, 0))
    await ledger.write()
    header, (row,) = await _exported(database, tmp_path, spec("focus"))
    for column, value, said in (
        ("BilledCost", None, "BilledCost: is null"),
        ("ListCost", "1", "list unit price × quantity = list cost"),
        ("ConsumedQuantity", "-1", "it is positive"),
        ("ChargeCategory", "Refund", "'Refund' is not allowed"),
        ("ChargePeriodStart", "2026-01-10", "is no datetime"),
        ("SkuId", None, "come with the SKU"),
    ):
        assert any(said in what for what in broken_rules(header, [row | {column: value}]))
    assert broken_rules([name for name in header if name != "ListCost"], []) == ["ListCost is missing"]
    assert set(COLUMNS) <= set(header)
