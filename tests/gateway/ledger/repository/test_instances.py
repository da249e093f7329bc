"""Heartbeats: one row per run, by the database's clock."""

from gateway.ledger.repository.instances import beat, mark_stopped
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
