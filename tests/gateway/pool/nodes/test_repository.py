"""What the supervisors say of pools, as rows."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from sqlalchemy import text

from gateway.db import Database
from gateway.ids import PoolId
from gateway.pool.models import Pool
from gateway.pool.nodes import node_states, write_stage
from gateway.pool.nodes.repository import REASON_CHARS_MAX, NodeState
from gateway.pool.views import Stage
from tests.gateway.pool.conftest import stub_spec

POOL = PoolId("pool_1")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="test")
    async with database.write() as session:
        session.add(Pool(id=POOL, name="stub", spec=stub_spec().model_dump(mode="json")))
    yield database
    await database.close()


async def _said(database: Database, node: str, stage: Stage) -> NodeState:
    async with database.write() as session:
        await write_stage(session, node, POOL, stage)
    async with database.read() as session:
        return next(one for one in await node_states(session, [POOL]) if one.node == node)


async def test_a_phase_keeps_its_beginning_while_its_reason_changes(database: Database) -> None:
    first = await _said(database, "n1", Stage("rolling", "0 of 3 replaced"))
    async with database.write() as session:
        await session.execute(text("UPDATE pool_node SET since = since - interval '1 h'"))
    second = await _said(database, "n1", Stage("rolling", "1 of 3 replaced"))
    assert (second.phase, second.reason) == ("rolling", "1 of 3 replaced")
    assert first.since - second.since == timedelta(hours=1)
    settled = await _said(database, "n1", Stage("settled"))
    assert (settled.phase, settled.reason) == ("settled", "")
    assert settled.since >= first.since


async def test_each_node_speaks_for_itself_and_at_bounded_length(database: Database) -> None:
    await _said(database, "n1", Stage("settled"))
    crashing = await _said(database, "n2", Stage("crashing", "x" * 5000))
    assert len(crashing.reason) == REASON_CHARS_MAX
    async with database.read() as session:
        states = await node_states(session, [POOL])
        assert await node_states(session, [PoolId("other")]) == []
    assert [(one.node, one.phase) for one in states] == [("n1", "settled"), ("n2", "crashing")]
