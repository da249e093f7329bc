"""Ranked groups beside another range: sums, order, limits, filters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.gateway.usage_events import settled, write
from tests.harness import Gateway

MIDNIGHT = datetime(2026, 3, 29, tzinfo=UTC)
START = int(MIDNIGHT.timestamp())
DAY = 86_400
# hours after midnight, completion tokens (400 nano-USD each), fields of the reservation
EVENTS: list[tuple[int, int, dict[str, Any]]] = [
    (1, 10, {}),
    (2, 1, {}),
    (3, 50, {"tenant_id": "proj_b", "key_id": "key_b", "served_model": "large"}),
    (4, 5, {"tenant_id": "proj_c", "key_id": "key_c", "pool_id": "pool_b", "request_class": "batch"}),
    (-5, 7, {"tenant_id": "proj_b", "key_id": "key_b"}),
    (-6, 90, {"tenant_id": "proj_d", "key_id": "key_d"}),
    (-20, 2, {}),
]
RANGE = f"start_time={START}&end_time={START + DAY}"
COMPARED = f"{RANGE}&compare_start_time={START - DAY}"


@pytest.fixture
async def ask(gateway: Gateway) -> AsyncIterator[Any]:
    settlements = [
        settled(number, MIDNIGHT + timedelta(hours=hours), tokens=(0, 0, tokens), asked=asked)
        for number, (hours, tokens, asked) in enumerate(EVENTS)
    ]
    await write(gateway.app.database, settlements)

    async def get(query: str, status: int = 200) -> Any:
        return await gateway.admin("GET", f"/usage/breakdown?{query}", status=status)

    yield get
    await gateway.sql("TRUNCATE usage_event")  # nobody had reserved them: not for the audit of the books


async def test_groups_are_ranked_beside_another_range(ask: Any) -> None:
    found = await ask(f"{COMPARED}&group_by=project_id")
    ranges = [found[name] for name in ("start_time", "end_time", "compare_start_time", "compare_end_time")]
    assert ranges == [START, START + DAY, START - DAY, START]
    assert found["object"] == "organization.usage.breakdown"
    rows = [
        (row["project_id"], row["amount_nanousd"], row["compared"]["amount_nanousd"]) for row in found["data"]
    ]
    assert rows == [("proj_b", 20_000, 2_800), ("proj_a", 4_400, 800), ("proj_c", 2_000, 0)]
    assert found["data"][1] == {
        "project_id": "proj_a",
        "num_model_requests": 2,
        "input_tokens": 0,
        "input_cached_tokens": 0,
        "output_tokens": 11,
        "amount_nanousd": 4_400,
        "compared": {
            "num_model_requests": 1,
            "input_tokens": 0,
            "input_cached_tokens": 0,
            "output_tokens": 2,
            "amount_nanousd": 800,
        },
    }
    assert found["total"]["num_model_requests"] == 4
    assert found["total"]["amount_nanousd"] == 26_400
    assert found["total"]["compared"]["output_tokens"] == 99, "groups that are only there count in the whole"
    assert found["has_more"] is False


async def test_order_limit_and_filters(ask: Any) -> None:
    async def names(query: str, field: str) -> tuple[list[str], bool]:
        found = await ask(f"{RANGE}&{query}&group_by={field}")
        assert all(row["compared"] is None for row in found["data"])
        return [row[field] for row in found["data"]], found["has_more"]

    assert await names("limit=2", "project_id") == (["proj_b", "proj_a"], True)
    assert await names("order_by=requests&limit=1", "project_id") == (["proj_a"], True)
    assert await names("order_by=input_tokens", "model") == (["large", "tiny"], False)
    assert await names("order_by=output_tokens", "api_key_id") == (["key_b", "key_a", "key_c"], False)
    assert await names("project_ids=proj_a&project_ids[]=proj_c", "pool_id") == (["pool_a", "pool_b"], False)
    assert await names("classes=batch", "project_id") == (["proj_c"], False)
    assert await names("models=large&statuses=ok", "status") == (["ok"], False)
    assert await names("pool_ids=pool_b", "class") == (["batch"], False)
    assert await names("api_key_ids=key_none", "endpoint") == ([], False)


async def test_bad_queries(ask: Any) -> None:
    for query, param in (
        (RANGE, "group_by"),
        (f"{RANGE}&group_by=user_id", "group_by"),
        (f"{RANGE}&group_by=model&page=page_1", "page"),
        (f"{RANGE}&group_by=model&limit=101", "limit"),
        (f"{RANGE}&group_by=model&compare_end_time=5", "compare_end_time"),
        (f"{RANGE}&group_by=model&compare_start_time=60&compare_end_time=60", "compare_end_time"),
    ):
        assert (await ask(query, 400))["error"]["param"] == param, query
