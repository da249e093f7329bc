"""Charts of a pool over HTTP: steps, pages, gaps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gateway.pool.samples import SampleRow, write_samples
from tests.fakes.engine import FakeEngine
from tests.harness import Gateway

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
START = int(AT.timestamp())


async def test_a_pool_is_charted_in_pages(gateway: Gateway, engine: FakeEngine) -> None:
    pool_id = await gateway.pool(engine)
    rows = [
        SampleRow(AT + timedelta(seconds=10 * n), f"r{replica}", pool_id, 1, n, 0.5, 0, 100 * n)
        for n in range(36)
        for replica in range(2)
        if not 12 <= n < 18
    ]
    async with gateway.app.database.transaction() as connection:
        await write_samples(connection, rows)
    query = f"/pools/{pool_id}/samples?start_time={START}&end_time={START + 360}&step_s=60&limit=2"
    steps, page = [], await gateway.admin("GET", query)
    while True:
        steps += page["data"]
        if page["next_page"] is None:
            break
        page = await gateway.admin("GET", f"{query}&page={page['next_page']}")
    assert [step["start_time"] - START for step in steps] == [0, 60, 180, 240, 300], "a gap stays a gap"
    assert [one["replica_id"] for one in steps[0]["replicas"]] == ["r0", "r1"]
    assert (steps[1]["replicas"][0]["waiting_max"], steps[1]["replicas"][0]["kv_usage_max"]) == (11, 0.5)
    assert (await gateway.admin("GET", f"/pools/{pool_id}/samples"))["data"] == []


async def test_what_makes_no_sense_is_refused(gateway: Gateway, engine: FakeEngine) -> None:
    pool_id = await gateway.pool(engine)
    for query in (
        f"start_time={START}&end_time={START}",
        f"start_time={START}&end_time={START + 90_000}",
        f"start_time={START}&end_time={START + 60}&page=page_1",
        "step_s=1",
        "limit=1000",
    ):
        await gateway.admin("GET", f"/pools/{pool_id}/samples?{query}", status=400)
    answer = await gateway.admin("GET", "/pools/pool_none/samples", status=404)
    assert "pool" in answer["error"]["message"]
