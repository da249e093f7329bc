"""Every question of the benchmark's list over a hundred thousand events: answered, and by plans that stay quick.

No plan reads a whole partition of usage events in sequence, whichever tenant, key, name or time is asked for. How long
the same questions take over ten million events is `python -m tests.bench.ledger_scale`'s to say.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy import event

from gateway.db import Database
from tests.bench.admin_queries import QUERIES, Facts
from tests.bench.pages import PAGES, REQUESTS_MAX
from tests.bench.scale_fill import Scale, fill
from tests.harness import Gateway
from tests.seeds import seed_of_test

EVENTS = 100_000


async def test_no_question_reads_a_partition_in_sequence(
    database_url: str, cache_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Duty I44: the plans of all admin queries, with default planner settings but for an SSD's random_page_cost."""
    # In proportion to the ledger: what a page may read of the events is not the half of all that there are.
    monkeypatch.setattr("gateway.http.admin.usage_query.EVENTS_MAX", EVENTS // 100)
    await fill(database_url, Scale(EVENTS, datetime.now(UTC)))
    connection = await asyncpg.connect(database_url)
    await connection.execute("SET random_page_cost = 1.1")
    seed = seed_of_test()
    draw = random.Random(seed)
    async with Gateway(database_url, cache_url, tmp_path) as gateway:
        facts = await Facts.of(gateway)
        for name, question in QUERIES.items():
            path = f"/v1/organization{question(facts, draw)}"
            with _statements(gateway.app.database) as statements:
                answer = await gateway.request("GET", path, key=gateway.admin_key)
                assert answer.status == 200, (path, await answer.text())
            for statement, values in statements:
                await _check(connection, name, path, statement, values)
    await connection.close()


def test_no_page_asks_for_more_than_five_things_or_for_what_is_not_measured() -> None:
    """Duty I44: pages of the console, as `make pages` measures them."""
    for page, names in PAGES.items():
        assert len(names) <= REQUESTS_MAX, page
        assert set(names) <= QUERIES.keys(), page


@contextmanager
def _statements(database: Database) -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    """What the gateway's own pool runs inside the block."""
    engine = database._engine.sync_engine
    found: list[tuple[str, tuple[Any, ...]]] = []

    def note(connection: Any, cursor: Any, statement: str, values: Any, context: Any, many: bool) -> None:
        found.append((statement, values))

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", note)


async def _check(
    connection: asyncpg.Connection, name: str, path: str, statement: str, values: tuple[Any, ...]
) -> None:
    if "usage_event" not in statement:
        return
    plan = json.loads(await connection.fetchval(f"EXPLAIN (FORMAT JSON) {statement}", *values))
    scanned = [
        node["Relation Name"]
        for node in _nodes(plan[0]["Plan"])
        if node["Node Type"] == "Seq Scan" and node["Relation Name"].startswith("usage_event")
    ]
    filled = await connection.fetch(
        "SELECT relname FROM pg_class WHERE relname = ANY($1) AND reltuples > 0", scanned
    )
    assert not filled, f"{name}: {path} reads {filled} in sequence:\n{json.dumps(plan, indent=1)}"


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)
