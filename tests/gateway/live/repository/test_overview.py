"""Figures of replicas: of now, or none at all."""

from __future__ import annotations

from gateway.db import Database
from gateway.live.repository.overview import Overview
from tests.conftest import execute
from tests.gateway.tenancy.support import RealStartClock


async def test_speed_is_between_two_samples_of_one_run(database_url: str) -> None:
    now = RealStartClock().now()
    execute(database_url, "INSERT INTO pool (id, name, spec, generation) VALUES ('pool_1', 'p', '{}', 2)")
    for id_, generation, state in (
        ("a", 2, "ready"),
        ("b", 1, "ready"),
        ("c", 2, "ready"),
        ("d", 2, "stopped"),
    ):
        execute(
            database_url,
            f"INSERT INTO replica (id, pool_id, node, state, pool_generation)"
            f" VALUES ('{id_}', 'pool_1', 'n', '{state}', {generation})",
        )
    for id_, age_s, tokens in (("a", 5, 1500), ("a", 15, 500), ("b", 5, 10), ("b", 15, 900), ("c", 90, 1)):
        execute(
            database_url,
            "INSERT INTO replica_sample (at, replica_id, pool_id, running, waiting, kv_usage, tokens)"
            f" VALUES ('{now.isoformat()}'::timestamptz - {age_s} * interval '1 second', '{id_}', 'pool_1',"
            f" {age_s}, 2, 0.5, {tokens})",
        )
    database = Database(database_url, name="test-overview", pool_size=1)
    async with database.read() as session:
        found = await Overview().read(session, now, alerts=False, changes=True)
    await database.close()
    [pool] = found.pools
    figures = {one.id: (one.is_outdated, one.running, one.tokens_per_second) for one in pool.replicas}
    assert figures == {"a": (False, 5, 100.0), "b": (True, 5, None), "c": (False, None, None)}
    assert (found.alerts, found.changes) == (None, [])
