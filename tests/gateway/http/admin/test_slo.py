"""The board and the series, from settled requests to what the console shows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gateway.db import Database
from gateway.ledger.types import Timings
from gateway.slo.evaluator import Evaluator
from tests.gateway.usage_events import settled, write
from tests.harness import Gateway, Tenant

BAD: dict[str, Any] = {"status": "error", "error_code": "server_error"}


async def fill(gateway: Gateway, tenants: list[Tenant], worst: int = 1) -> None:
    """Ten requests of each, a minute ago; those of the tenant `worst` fail every second time."""
    at = gateway.app.clock.now() - timedelta(minutes=1)
    wanted = []
    for place, tenant in enumerate(tenants):
        for number in range(10):
            ending = BAD if place == worst and number % 2 else {}
            timings = Timings(ttft_ms=100 * (number + 1), e2e_ms=5_000, tpot_us=10_000 * (place + 1))
            asked = {"tenant_id": tenant.id, "is_stream": True, "served_model": "m"}
            wanted.append(settled(100 * place + number, at, asked=asked, timings=timings, **ending))
    database: Database = gateway.app.database
    await write(database, wanted)
    await Evaluator(database, gateway.app.clock).run_once()
    await gateway.sql("TRUNCATE usage_event")  # nobody had reserved them: not for the audit of the books


async def test_the_board_is_worst_first(gateway: Gateway) -> None:
    tenants = [await gateway.tenant(name) for name in ("good", "bad")]
    await fill(gateway, tenants)
    page = await gateway.admin("GET", "/slo/board")
    assert [(line["scope"], line["project_id"]) for line in page["data"]] == [
        ("project", tenants[1].id),
        ("all_projects", None),
        ("project", tenants[0].id),
    ]
    worst, together, good = page["data"]
    assert worst["budget_left"] == pytest.approx(1 - 0.5 / 0.001)
    assert worst["burn_1h"] == pytest.approx(500)
    assert {one["sli"]: (one["good"], one["total"]) for one in together["series"]} == {
        "availability": (15, 20),
        "tpot": (20, 20),
        "ttft": (16, 20),
    }
    assert good["budget_left"] == pytest.approx(1 - 0.2 / 0.05), "its slowest first tokens are too slow"
    assert 940 <= good["ttft_p95_ms"] <= 1000
    assert 9 <= good["tpot_p95_ms"] <= 10
    assert 19 <= worst["tpot_p95_ms"] <= 20
    assert good["tokens_per_s"] == pytest.approx(10 * 5 / 300)
    assert together["tokens_per_s"] == pytest.approx(20 * 5 / 300)
    assert page["next_page"] is None


async def test_the_board_has_pages(gateway: Gateway) -> None:
    await fill(gateway, [await gateway.tenant(name) for name in "abcd"])
    seen: list[str] = []
    page = await gateway.admin("GET", "/slo/board?limit=2")
    while True:
        seen += [line["id"] for line in page["data"]]
        if page["next_page"] is None:
            break
        page = await gateway.admin("GET", f"/slo/board?limit=2&page={page['next_page']}")
    assert len(seen) == len(set(seen)) == 5
    for nonsense in ("page_0", "page_-1", "page_zz", "2"):
        await gateway.admin("GET", f"/slo/board?page={nonsense}", status=400)


async def test_a_project_sees_its_own_lines(gateway: Gateway) -> None:
    mine, theirs = await gateway.tenant("mine"), await gateway.tenant("theirs")
    await fill(gateway, [mine, theirs])
    key = (
        await gateway.admin("POST", f"/projects/{mine.id}/api_keys", {"name": "k", "scopes": ["usage.read"]})
    )["value"]

    async def get(path: str, status: int = 200) -> Any:
        answer = await gateway.request("GET", f"/v1/organization/slo/{path}", key=key)
        assert answer.status == status
        return await answer.json()

    assert [line["project_id"] for line in (await get("board"))["data"]] == [mine.id]
    assert (await get(f"board?project_ids={theirs.id}"))["data"] == []
    counts = [
        one
        for bucket in (
            await get(
                "series?start_time=0&bucket_width=1d&limit=100&page=page_"
                + format(int(gateway.app.clock.now().timestamp()) // 86_400 * 86_400 - 86_400, "x")
            )
        )["data"]
        for one in bucket["counts"]
    ]
    assert sum(one["total"] for one in counts if one["sli"] == "availability") == 10
    await get("series?start_time=0&pool_ids=pool_a", 400)


async def test_series_have_percentiles_of_the_sum_and_gaps_stay_gaps(gateway: Gateway) -> None:
    tenants = [await gateway.tenant(name) for name in "ab"]
    await fill(gateway, tenants)
    now = int(gateway.app.clock.now().timestamp())
    query = f"/slo/series?start_time={now - 1200}&end_time={now}&bucket_width=1m"
    page = await gateway.admin("GET", query)
    full = [bucket for bucket in page["data"] if bucket["ttft"]["count"]]
    empty = [bucket for bucket in page["data"] if not bucket["ttft"]["count"]]
    assert len(full) == 1
    assert len(empty) >= 19
    assert all(bucket["ttft"]["p95_ms"] is None and bucket["counts"] == [] for bucket in empty)
    assert full[0]["ttft"]["count"] == 20
    assert 490 <= full[0]["ttft"]["p50_ms"] <= 500
    assert 990 <= full[0]["ttft"]["p99_ms"] <= 1000
    assert full[0]["counts"][0] == {"sli": "availability", "threshold_ms": None, "good": 15, "total": 20}
    one = await gateway.admin("GET", f"{query}&project_ids={tenants[0].id}&latencies=tpot&pool_ids=pool_a")
    (bucket,) = [bucket for bucket in one["data"] if bucket["counts"]]
    assert (bucket["tpot"]["count"], bucket["ttft"]["count"]) == (10, 0)
    nowhere = await gateway.admin("GET", f"{query}&pool_ids=pool_x")
    assert not any(bucket["e2e"]["count"] for bucket in nowhere["data"])
    batch = await gateway.admin("GET", f"{query}&class=batch")
    assert not any(bucket["counts"] for bucket in batch["data"])


async def test_series_have_pages_of_whole_buckets(gateway: Gateway) -> None:
    start, end = 1_790_000_123, 1_790_020_000
    query = f"/slo/series?start_time={start}&end_time={end}&bucket_width=1h&limit=2"
    starts: list[int] = []
    page = await gateway.admin("GET", query)
    while True:
        starts += [bucket["start_time"] for bucket in page["data"]]
        if page["next_page"] is None:
            break
        page = await gateway.admin("GET", f"{query}&page={page['next_page']}")
    assert starts == list(range(start // 3600 * 3600, end, 3600))
    assert page["data"][-1]["end_time"] % 3600 == 0
    await gateway.admin("GET", f"{query}&limit=169", status=400)
    assert (await gateway.admin("GET", "/slo/series?start_time=32503680000"))["data"] == []
