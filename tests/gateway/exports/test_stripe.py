"""Stripe meter events: immutable deltas that add up, whatever period they are exported in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from gateway.db import Database
from gateway.exports.service import export
from gateway.exports.store import DirectoryStore
from gateway.exports.stripe import EVENT_NAME, identifier
from gateway.exports.types import ExportSpec, Period
from tests.gateway.exports.ledger import DAY, Ledger, spec


async def _exported(database: Database, root: Path, wanted: ExportSpec) -> list[dict[str, Any]]:
    await export(database, DirectoryStore(root), wanted, lambda done, total: None)
    path = root / wanted.prefix / "part-00001.jsonl"
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


async def _with_customers(ledger: Ledger) -> None:
    await ledger.books.run(
        "INSERT INTO stripe_customer VALUES ('proj_a', 'cus_a', '2026-01-01Z'), ('proj_b', 'cus_b', '2026-01-01Z')"
    )


async def test_deltas_add_up_and_projects_without_a_customer_are_listed(
    database: Database, ledger: Ledger, tmp_path: Path
) -> None:
    await _with_customers(ledger)
    await ledger.fill(days=2)
    events = await _exported(database, tmp_path, spec("stripe", days=2))
    sums = await ledger.sums()
    for tenant, customer in (("proj_a", "cus_a"), ("proj_b", "cus_b")):
        values = [
            int(e["payload"]["value"]) for e in events if e["payload"]["stripe_customer_id"] == customer
        ]
        assert sum(values) == sums[tenant]["amount_nanousd"]
        assert 0 not in values
    manifest = orjson.loads((tmp_path / spec("stripe", days=2).prefix / "manifest.json").read_bytes())
    assert manifest["nanousd_without_customer"] == {"=cmd()": sums["=cmd()"]["amount_nanousd"]}
    assert manifest["totals"]["amount_nanousd"] == sum(one["amount_nanousd"] for one in sums.values())


async def test_deltas_do_not_depend_on_the_period(database: Database, ledger: Ledger, tmp_path: Path) -> None:
    """Three days one by one, or together: the same lines, each identifier once, also with late events."""
    await _with_customers(ledger)
    await ledger.fill(days=3)
    for number in range(5):
        ledger.event(DAY + timedelta(hours=20 + number), recorded_after=timedelta(hours=5 * number + 3))
    await ledger.write()
    single = []
    for number in range(3):
        start = DAY.date() + timedelta(days=number)
        single += await _exported(
            database, tmp_path, ExportSpec("stripe", Period(start, start + timedelta(days=1)))
        )
    assert single == await _exported(database, tmp_path, spec("stripe", days=3))
    assert len({event["identifier"] for event in single}) == len(single)


async def test_events_are_within_the_limits_of_the_endpoint(
    database: Database, ledger: Ledger, tmp_path: Path
) -> None:
    await _with_customers(ledger)
    await ledger.fill()
    ledger.event(DAY - timedelta(days=40), recorded_after=timedelta(days=40, hours=4))
    await ledger.write()
    events = await _exported(database, tmp_path, spec("stripe"))
    assert events
    for event in events:
        assert set(event) == {"event_name", "identifier", "timestamp", "payload"}
        assert len(event["event_name"]) <= 100
        assert len(event["identifier"]) <= 100
        assert DAY.timestamp() <= event["timestamp"] < (DAY + timedelta(days=1)).timestamp()
        assert str(int(event["payload"]["value"])) == event["payload"]["value"]


def test_an_identifier_says_project_and_hour() -> None:
    hour = datetime(2026, 1, 10, 13, tzinfo=UTC)
    assert identifier("proj_a", hour) == f"{EVENT_NAME}-proj_a-20260110T13Z"
    assert len(identifier("proj_" + "0" * 32, hour)) <= 100
