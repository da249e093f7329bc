"""The SQL of the checklist, on a real database."""

from __future__ import annotations

from gateway.checks.repository import read_facts
from gateway.db import Database
from gateway.settings import DatabaseSettings
from tests.conftest import execute


async def test_gateways_that_stopped_or_fell_silent_are_not_counted(database_url: str) -> None:
    execute(
        database_url,
        "INSERT INTO gateway_instance (instance_id, gateway_id, heartbeat_at, stopped_at) VALUES"
        " ('a', 'a', now(), NULL), ('b', 'b', now(), now()), ('c', 'c', now() - interval '2 minutes', NULL)",
    )
    execute(
        database_url,
        "INSERT INTO review_item (kind, subject, details, resolved_at, resolution) VALUES"
        " ('engine_gone', 'x', '{}', NULL, NULL), ('engine_gone', 'y', '{}', now(), 'looked')",
    )
    database = Database.of(DatabaseSettings(url=database_url), name="test", pool_size=1, patient=True)
    try:
        async with database.read() as session:
            facts = await read_facts(session)
    finally:
        await database.close()
    assert (facts.gateways, facts.open_review_items, facts.may_rewrite_events) == (1, 1, False)
    assert dict(facts.tokens) == {}
