"""Heartbeats: one row per run, by the database's clock."""

from gateway.ledger.repository.instances import beat, mark_stopped, stop_earlier_runs
from tests.gateway.books import Books


async def test_a_run_beats_and_stops(books: Books) -> None:
    async with books.database.transaction() as connection:
        await beat(connection, "run_1", "gw")
    await books.run("UPDATE gateway_instance SET heartbeat_at = '2020-01-01Z'")
    async with books.database.transaction() as connection:
        await beat(connection, "run_1", "gw")
        await beat(connection, "run_2", "gw")
        await mark_stopped(connection, "run_1")
    rows = await books.rows(
        "SELECT instance_id, now() - heartbeat_at < interval '1 minute', stopped_at IS NULL"
        " FROM gateway_instance ORDER BY 1"
    )
    assert [tuple(row) for row in rows] == [("run_1", True, False), ("run_2", True, True)]


async def test_a_run_stops_its_predecessors_and_nobody_else(books: Books) -> None:
    async with books.database.transaction() as connection:
        for run, gateway in (("run_1", "gw"), ("run_2", "gw"), ("run_3", "other")):
            await beat(connection, run, gateway)
        await stop_earlier_runs(connection, "run_2", "gw")
    rows = await books.rows("SELECT instance_id FROM gateway_instance WHERE stopped_at IS NULL ORDER BY 1")
    assert [row[0] for row in rows] == ["run_2", "run_3"]
