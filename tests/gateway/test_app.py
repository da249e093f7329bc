"""The data plane as one process: what it opens."""

from __future__ import annotations

import asyncio

import asyncpg

from tests.fakes.engine import FakeEngine
from tests.fakes.script import Script
from tests.gateway.asking import BODY
from tests.harness import Gateway

CALLERS = 24
COUNT = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE 'tollway-%'
"""


async def test_connections_to_the_database_are_bounded(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty C20: connections = replicas times what `database.pool_size` says, and six, under any load."""
    tenant = await gateway.serve(engine)
    engine.default = Script(token_delay_s=0.01)
    load = [
        asyncio.create_task(gateway.client(tenant).chat.completions.create(**BODY)) for _ in range(CALLERS)
    ]
    load += [asyncio.create_task(gateway.admin("GET", "/projects")) for _ in range(CALLERS)]
    highest = 0
    watcher = await asyncpg.connect(gateway.database_url)
    while not all(task.done() for task in load):
        highest = max(highest, await watcher.fetchval(COUNT))
        await asyncio.sleep(0.02)
    await watcher.close()
    await asyncio.gather(*load)
    await gateway.events(CALLERS)
    assert 4 <= highest <= gateway.settings.database.pool_size + 7
