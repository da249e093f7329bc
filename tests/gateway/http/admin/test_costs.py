"""`costs` with the stock client: amounts to the nano-USD, line items, groups, pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import openai
import pytest
from openai.types.admin.organization.usage_costs_response import DataResultOrganizationCostsResult as Cost

from gateway.ids import RequestId, TenantId
from gateway.ledger.adjusting import Adjuster, Adjustment, Credit
from tests.gateway.http.admin.clients import admin_client
from tests.gateway.usage_events import correct, fold_all, settled, write
from tests.harness import Gateway
from tests.instants import just_now

MIDNIGHT = datetime(2026, 3, 29, tzinfo=UTC)
START = int(MIDNIGHT.timestamp())
DAY = 86_400
# Prices of the builders: 100 nano-USD an input token, 10 a cached one, 400 an output token.
EVENTS: list[tuple[int, tuple[int, int, int], dict[str, Any]]] = [
    (0, (10, 4, 5), {"user_ref": "u1"}),
    (1, (1, 0, 0), {"key_id": "key_b"}),
    (30, (7, 7, 1), {"tenant_id": "proj_b", "served_model": "large, really"}),
    (50, (3, 0, 3), {"tenant_id": "proj_b", "endpoint": "embeddings"}),
]
COSTS = [600 + 40 + 2000, 100, 70 + 400, 300 + 1200]
RANGE = {"start_time": START, "end_time": START + 3 * DAY}


@pytest.fixture
async def costs(gateway: Gateway) -> AsyncIterator[Any]:
    settlements = [
        settled(number, MIDNIGHT + timedelta(hours=hours), tokens=tokens, asked=asked)
        for number, (hours, tokens, asked) in enumerate(EVENTS)
    ]
    await write(gateway.app.database, settlements)
    yield admin_client(gateway).admin.organization.usage.costs
    await gateway.sql("TRUNCATE usage_event")  # nobody had reserved them: not for the audit of the books


def nanousd(result: Any) -> int:
    assert isinstance(result, Cost)
    assert result.amount is not None
    assert result.amount.currency == "usd"
    exact = Decimal(repr(result.amount.value)) * 10**9
    assert exact == int(exact), "not a whole number of nano-USD"
    return int(exact)


def _results(page: Any) -> list[Any]:
    """Of all its days: one may end while a test runs."""
    return [result for bucket in page.data for result in bucket.results]


async def test_every_field_of_a_result(costs: Any) -> None:
    page = await costs(**RANGE)
    assert (page.object, page.has_more, page.next_page) == ("page", False, None)
    assert [(bucket.object, bucket.start_time, bucket.end_time) for bucket in page.data] == [
        ("bucket", START + day * DAY, START + (day + 1) * DAY) for day in range(3)
    ]
    [result] = page.data[0].results
    assert result.to_dict() == {
        "object": "organization.costs.result",
        "amount": {"value": 0.00000274, "currency": "usd"},
        "amount_nanousd": 2740,
        "quantity": None,
        "quantity_unit": None,
        "line_item": None,
        "project_id": None,
        "user_id": None,
        "api_key_id": None,
        "api_source": None,
    }
    assert [sum(map(nanousd, bucket.results)) for bucket in page.data] == [
        COSTS[0] + COSTS[1],
        COSTS[2],
        COSTS[3],
    ]


async def test_line_items_groups_and_filters(costs: Any) -> None:
    async def found(*fields: str, **query: Any) -> dict[Any, tuple[int, float | None]]:
        """Of the whole range; a group that came twice in a bucket would be lost and the sums be wrong."""
        sums: dict[Any, tuple[int, float | None]] = {}
        for bucket in (await costs(**RANGE, **query)).data:
            for result in bucket.results:
                assert result.quantity_unit == ("tokens" if result.quantity is not None else None)
                key = tuple(getattr(result, field) for field in fields)
                before = sums.get(key, (0, None))
                tokens = (before[1] or 0) + result.quantity if result.quantity is not None else None
                sums[key] = (before[0] + nanousd(result), tokens)
        return sums

    items = {
        ("tiny, input_tokens",): (600 + 100 + 300, 10),
        ("tiny, cached_input_tokens",): (40, 4),
        ("tiny, output_tokens",): (2000 + 1200, 8),
        ("large, really, cached_input_tokens",): (70, 7),
        ("large, really, output_tokens",): (400, 1),
    }
    assert await found("line_item", group_by=["line_item"]) == items
    wanted = ["large, really, output_tokens", "tiny, input_tokens"]
    assert await found("line_item", group_by=["line_item"], line_items=wanted) == {
        (item,): items[(item,)] for item in wanted
    }
    assert await found(line_items=wanted) == {(): (1000 + 400, None)}
    assert await found("project_id", group_by=["project_id"]) == {
        ("proj_a",): (COSTS[0] + COSTS[1], None),
        ("proj_b",): (COSTS[2] + COSTS[3], None),
    }
    by_key = await found("api_key_id", group_by=["api_key_id"], project_ids=["proj_a"])
    assert by_key == {("key_a",): (COSTS[0], None), ("key_b",): (COSTS[1], None)}
    assert await found(api_key_ids=["key_b"]) == {(): (COSTS[1], None)}
    assert await found("api_source", group_by=["api_source"]) == {("unlabeled",): (sum(COSTS), None)}
    by_user = await found("user_id", "project_id", group_by=["user_id", "project_id"])
    assert by_user["u1", "proj_a"] == (COSTS[0], None)
    assert by_user[None, "proj_a"] == (COSTS[1], None)
    both = await found(
        "project_id", "line_item", group_by=["line_item", "project_id"], project_ids=["proj_b"]
    )
    assert both["proj_b", "tiny, output_tokens"] == (1200, 3)
    assert sum(amount for amount, _ in both.values()) == COSTS[2] + COSTS[3]


async def test_money_by_hand_is_a_line_of_its_own(costs: Any, gateway: Gateway) -> None:
    """A credit belongs to a project and to no model or key; the lines still add up to the costs."""
    tenant = await gateway.tenant()
    now = just_now()
    today = int(now.timestamp()) // DAY * DAY
    await write(gateway.app.database, [settled(99, now, asked={"tenant_id": tenant.id})])
    by_hand = Adjuster(gateway.app.clock, gateway.app.ids)
    tenant_id, request_id = TenantId(tenant.id), RequestId("req_000099")
    async with gateway.app.database.write() as session:
        await by_hand.credit(session, Credit("key-1", tenant_id, 500, "goodwill", "someone"))
        await by_hand.adjust(session, Adjustment("key-2", tenant_id, request_id, -7, "a slip", "someone"))
    await fold_all(gateway.app.database)
    page = await costs(start_time=today, group_by=["line_item", "api_key_id"])
    lines = [
        (result.line_item, result.api_key_id, nanousd(result), result.quantity) for result in _results(page)
    ]
    assert sorted(lines) == [
        ("credits", None, -500, None),
        ("tiny, adjustments", "key_a", -7, None),
        ("tiny, input_tokens", "key_a", 1_000, 10),
        ("tiny, output_tokens", "key_a", 2_000, 5),
    ]
    whole = _results(await costs(start_time=today, project_ids=[tenant.id]))
    assert sum(map(nanousd, whole)) == 3_000 - 507, "the lines add up to the whole"
    for item, amount in (("credits", -500), ("tiny, adjustments", -7)):
        [only] = _results(await costs(start_time=today, line_items=[item]))
        assert nanousd(only) == amount
    usage = admin_client(gateway).admin.organization.usage
    result, *_ = _results(await usage.completions(start_time=today, group_by=["model"]))
    assert (result.model, result.num_model_requests) == ("tiny", 1), "what is no request is not counted"
    nobodys, *_ = _results(await usage.completions(start_time=today, group_by=["user_id"]))
    assert (nobodys.user_id, nobodys.num_model_requests) == (None, 1), "nor when the events are read"


async def test_pages_are_walked_to_the_end(costs: Any) -> None:
    """Duty C23: one bucket a page: nothing missed, nothing twice."""
    buckets, page = [], await costs(**RANGE, limit=1)
    while True:
        assert len(page.data) == 1
        buckets += page.data
        if not page.has_more:
            break
        page = await costs(**RANGE, limit=1, page=page.next_page)
    assert [sum(map(nanousd, bucket.results)) for bucket in buckets] == [2740, 470, 1500]
    assert [bucket.start_time for bucket in buckets] == [START, START + DAY, START + 2 * DAY]


async def test_line_items_come_a_quarter_at_a_time(costs: Any) -> None:
    """Duty C23: whatever the limit, a page with lines ends after 92 days, and the next one goes on."""
    query = {
        "start_time": START - 100 * DAY,
        "end_time": START + 3 * DAY,
        "limit": 180,
        "group_by": ["line_item"],
    }
    first = await costs(**query)
    assert (len(first.data), first.has_more) == (92, True)
    second = await costs(**query, page=first.next_page)
    assert (len(second.data), second.has_more) == (11, False)
    assert second.data[0].start_time == first.data[-1].end_time
    assert sum(nanousd(result) for bucket in second.data for result in bucket.results) == sum(COSTS)
    assert len((await costs(**{**query, "group_by": []})).data) == 103


async def test_amounts_lose_nothing(costs: Any, gateway: Gateway) -> None:
    """The JSON has every digit; a client of doubles has them back up to millions of dollars."""
    [event] = await gateway.sql("SELECT * FROM usage_event WHERE request_id = 'req_000002'")
    for amount in (1, 3_999_999_999_999_999, 9_007_199_254_740_993_123, -2_740):
        total = COSTS[2] + amount
        fix = await correct(gateway.app.database, event, output_nanousd=amount)
        body = await gateway.request(
            "GET",
            f"/v1/organization/costs?start_time={START + DAY}&end_time={START + 2 * DAY}",
            key=gateway.admin_key,
        )
        text = await body.text()
        written = text.split('"value":')[1].split(",")[0].split("}")[0]
        assert Decimal(written) * 10**9 == total, "exact as text"
        assert f'"amount_nanousd":{total}' in text
        if abs(total) < 4 * 10**15:
            assert round(Decimal(float(written)) * 10**9) == total, "exact after a double"
        await correct(gateway.app.database, fix, output_nanousd=-amount)


async def test_bad_queries_are_typed_errors(costs: Any) -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        ({"bucket_width": "1h"}, "bucket_width"),
        ({"limit": 181}, "limit"),
        ({"group_by": ["model"]}, "group_by.0"),
        ({"line_items": ["tiny, tokens"]}, "line_items"),
        ({"page": "page_"}, "page"),
    ]
    for query, param in bad:
        with pytest.raises(openai.BadRequestError) as refused:
            await costs(**RANGE, **query)
        assert (refused.value.code, refused.value.param) == ("invalid_value", param), query
