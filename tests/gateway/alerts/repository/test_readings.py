"""What the sources read leaves out what nobody wants to hear of."""

from __future__ import annotations

from gateway.alerts.repository.readings import (
    expiring_keys,
    pool_names,
    replica_health,
    samples,
    serving_pools,
)
from tests.gateway.alerts.conftest import NOW, Bench


async def test_pools_that_are_gone_and_replicas_that_stopped_are_left_out(bench: Bench) -> None:
    for name, deleted in (("a", None), ("b", NOW)):
        await bench.books.run(
            "INSERT INTO pool (id, name, spec, deleted_at) VALUES (:id, :id, '{}', :deleted)",
            id=name,
            deleted=deleted,
        )
        for state in ("ready", "stopped"):
            replica = f"{name}_{state}"
            await bench.books.run(
                "INSERT INTO replica (id, pool_id, node, state) VALUES (:id, :pool, 'n', :state)",
                id=replica,
                pool=name,
                state=state,
            )
            await bench.books.run(
                "INSERT INTO replica_sample VALUES (:at, :id, :pool, 1, 1, 0.1, 0, 0)",
                at=NOW,
                id=replica,
                pool=name,
            )
    async with bench.database.transaction() as connection:
        assert [one.replica_id for one in await samples(connection, NOW)] == ["a_ready"]
        assert await serving_pools(connection) == await pool_names(connection) == {"a": "a"}
        assert [one.replica_id for one in await replica_health(connection)] == ["a_ready"]
        assert await expiring_keys(connection, NOW) == []
