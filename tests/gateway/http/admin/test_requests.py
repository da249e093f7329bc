"""The request list and one request: pages, filters, what a tenant's key may see."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import openai
import pytest

from gateway.ids import RequestId, TenantId
from gateway.ledger.adjusting import Adjuster, Adjustment
from tests.fakes.engine import FakeEngine
from tests.gateway.http.admin.clients import admin_client
from tests.gateway.http.admin.people import admin_key, user
from tests.gateway.usage_events import correct, settled, write
from tests.harness import PRICES, SERVED, Gateway, Tenant

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
START = int(NOON.timestamp())
COUNT = 23


@pytest.fixture
async def listed(gateway: Gateway) -> AsyncIterator[Tenant]:
    """Twenty-three requests, a minute apart, newest last; two tenants in turns."""
    tenant = await gateway.tenant()
    other = await gateway.tenant("other")
    events = await write(gateway.app.database, [_request(number, (tenant, other)) for number in range(COUNT)])
    await correct(gateway.app.database, events[4], completion_tokens=-1, output_nanousd=-400)
    await gateway.refresh()
    yield tenant
    await gateway.sql("TRUNCATE usage_event")  # nobody had reserved them: not for the audit of the books


def _request(number: int, tenants: tuple[Tenant, Tenant]) -> Any:
    tenant = tenants[number % 2]
    return settled(
        number,
        NOON + timedelta(minutes=number),
        asked={
            "tenant_id": tenant.id,
            "key_id": tenant.key_id,
            "served_model": "large" if number % 5 == 0 else "tiny",
            "pool_id": f"pool_{number % 3}",
            "request_class": "batch" if number % 7 == 0 else "interactive",
            "is_stream": number % 4 == 0,
            "user_ref": f"user_{number % 6}" if number % 6 else None,
        },
        status=("ok", "ok", "partial", "ok", "cancelled")[number % 5],
    )


async def _all(gateway: Gateway, query: str = "", limit: int = 4) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    page = await gateway.admin("GET", f"/requests?limit={limit}{query}")
    while True:
        assert page["object"] == "page"
        assert len(page["data"]) <= limit
        found += page["data"]
        if not page["has_more"]:
            assert page["next_page"] is None
            return found
        page = await gateway.admin("GET", f"/requests?limit={limit}{query}&page={page['next_page']}")


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    return [int(row["id"].removeprefix("req_")) for row in rows]


async def test_pages_are_walked_newest_first(listed: Tenant, gateway: Gateway) -> None:
    """Duty C23: six pages of four, each request once, whatever arrives meanwhile at the head."""
    first = await gateway.admin("GET", "/requests?limit=4")
    await write(gateway.app.database, [settled(99, NOON + timedelta(days=1))])
    rest, page = [], first
    while page["has_more"]:
        page = await gateway.admin("GET", f"/requests?limit=4&page={page['next_page']}")
        rest += page["data"]
    assert numbers(first["data"] + rest) == list(range(COUNT))[::-1]


async def test_filters_alone_and_together(listed: Tenant, gateway: Gateway) -> None:
    cases: list[tuple[str, Any]] = [
        (f"&project_id={listed.id}", lambda n: n % 2 == 0),
        (f"&api_key_id={listed.key_id}", lambda n: n % 2 == 0),
        ("&model=large", lambda n: n % 5 == 0),
        ("&pool_id=pool_1", lambda n: n % 3 == 1),
        ("&class=batch", lambda n: n % 7 == 0),
        ("&stream=true", lambda n: n % 4 == 0),
        ("&stream=false", lambda n: n % 4),
        ("&user_id=user_3", lambda n: n % 6 == 3),
        ("&status=partial&status=cancelled", lambda n: n % 5 in (2, 4)),
        ("&status[]=partial", lambda n: n % 5 == 2),
        (
            f"&status=ok&model=tiny&project_id={listed.id}&stream=true",
            lambda n: n % 5 in (1, 3) and n % 4 == 0,
        ),
        (f"&status=cancelled&project_id={listed.id}&pool_id=pool_0", lambda n: n % 5 == 4 and n % 6 == 0),
        (f"&start_time={START + 300}&end_time={START + 900}", lambda n: 5 <= n < 15),
        ("&model=none", lambda n: False),
    ]
    for query, is_wanted in cases:
        found = numbers(await _all(gateway, query))
        assert found == [number for number in reversed(range(COUNT)) if is_wanted(number)], query


async def test_every_field_of_a_line(listed: Tenant, gateway: Gateway) -> None:
    [row] = [row for row in await _all(gateway) if row["id"] == "req_000004"]
    event = (
        await gateway.sql(
            "SELECT * FROM usage_event WHERE request_id = 'req_000004' ORDER BY corrects NULLS FIRST"
        )
    )[0]
    assert row == {
        "object": "organization.request",
        "id": "req_000004",
        "event_id": event["event_id"].hex,
        "occurred_at": START + 240,
        "project_id": listed.id,
        "api_key_id": listed.key_id,
        "user_id": "user_4",
        "model": "tiny",
        "endpoint": "chat.completions",
        "class": "interactive",
        "stream": True,
        "status": "cancelled",
        "error_code": None,
        "input_tokens": 10,
        "input_cached_tokens": 0,
        "output_tokens": 5,
        "reasoning_tokens": 0,
        "amount_nanousd": 3_000,
        "net_amount_nanousd": 2_600,
        "queue_ms": None,
        "ttft_ms": None,
        "e2e_ms": None,
        "tpot_us": None,
        "client_retry_count": 0,
        "pool_id": "pool_1",
        "route_id": "route_a",
    }  # fmt: skip


async def test_one_request_with_all_that_is_known(gateway: Gateway, engine: FakeEngine) -> None:
    """A real one: attempts, the prices that were used, timings, and a correction by hand with its reason."""
    tenant = await gateway.serve(engine)
    await gateway.client(tenant).completions.create(model=SERVED, prompt="one two three", user="me")
    [event] = await gateway.events(1)
    await gateway.app.notebook.flush()
    adjuster = Adjuster(gateway.app.clock, gateway.app.ids)
    request_id = RequestId(event["request_id"])
    async with gateway.app.database.write() as session:
        wanted = Adjustment("k", TenantId(tenant.id), request_id, -100, "a slow answer", "someone")
        await adjuster.adjust(session, wanted)
    found = await gateway.admin("GET", f"/requests/{request_id}")
    assert (found["id"], found["status"], found["is_provisional"]) == (request_id, "ok", False)
    assert found["net_amount_nanousd"] == found["amount_nanousd"] - 100
    assert found["amount_nanousd"] == sum(
        found[f"{part}_nanousd"] for part in ("input", "cached_input", "output")
    )
    prices = {price["component"]: price["nanousd_per_token"] for price in found["prices"]}
    assert {f"{name}_nanousd_per_token": value for name, value in prices.items()} == PRICES
    assert (found["user_id"], found["end_user"]) == (event["user_ref"], "me")
    assert found["e2e_ms"] >= 0
    [attempt] = found["attempts"]
    assert (attempt["attempt"], attempt["unbilled_reason"], attempt["overrun_tokens"]) == (0, None, 0)
    assert attempt["billed_input_tokens"] == attempt["input_tokens"] == found["input_tokens"] > 0
    assert attempt["billed_output_tokens"] == attempt["output_tokens"] == found["output_tokens"] > 0
    assert (attempt["replica_id"], attempt["engine_epoch"]) == (
        (await gateway.attempts())[0]["replica_id"],
        engine.epoch,
    )
    [correction] = found["corrections"]
    assert (correction["kind"], correction["amount_nanousd"], correction["reason"]) == (
        "adjustment",
        -100,
        "a slow answer",
    )
    assert correction["created_by"] == "someone"
    [line] = (await gateway.admin("GET", "/requests"))["data"]
    assert line["net_amount_nanousd"] == found["net_amount_nanousd"]
    assert found.items() >= line.items(), "the line is part of the whole"
    await gateway.sql("DELETE FROM user_pseudonym")
    erased = await gateway.admin("GET", f"/requests/{request_id}")
    assert (erased["end_user"], erased["amount_nanousd"]) == (None, found["amount_nanousd"])


async def test_a_tenants_key_reads_its_own_and_nothing_else(listed: Tenant, gateway: Gateway) -> None:
    """Only with the scope, only what the table allows, only its own tenant, and nothing of the machinery."""
    body = {"name": "reader", "scopes": ["usage.read"]}
    key = (await gateway.admin("POST", f"/projects/{listed.id}/api_keys", body))["value"]
    await gateway.refresh()

    async def get(path: str, with_key: str = key) -> tuple[int, Any]:
        answer = await gateway.request("GET", f"/v1/organization{path}", key=with_key)
        return answer.status, await answer.json()

    others = next(row["project_id"] for row in await _all(gateway) if row["project_id"] != listed.id)
    status, page = await get("/requests?limit=100")
    assert status == 200
    assert numbers(page["data"]) == [number for number in reversed(range(COUNT)) if number % 2 == 0]
    assert not {"pool_id", "route_id"} & set(page["data"][0])
    assert (await get(f"/requests?project_id={others}"))[1]["data"] == []
    assert (await get("/requests/req_000002"))[0] == 200
    hidden = await get("/requests/req_000001")
    missing = await get("/requests/req_none")
    assert hidden == missing
    assert hidden[0] == 404
    assert (await get("/requests?pool_id=pool_1"))[0] == 400
    usage = admin_client(gateway, key).admin.organization.usage
    range_: Any = {"start_time": START, "end_time": START + 86_400}
    for query in ({}, {"project_ids": [others, listed.id]}):
        [bucket] = (await usage.completions(**range_, group_by=["project_id"], **query)).data[:1]
        assert [(row.project_id, row.num_model_requests) for row in bucket.results] == [(listed.id, 12)]
    assert (await usage.completions(**range_, project_ids=[others])).data[0].results == []
    [cost] = (await usage.costs(**range_, group_by=["project_id"])).data[0].results
    assert cost.project_id == listed.id
    range_text = f"start_time={START}&end_time={START + 86_400}"
    breakdown = (await get(f"/usage/breakdown?{range_text}&group_by=project_id"))[1]
    assert [row["project_id"] for row in breakdown["data"]] == [listed.id]
    assert breakdown["total"]["num_model_requests"] == 12
    assert (await get(f"/usage/breakdown?{range_text}&group_by=pool_id"))[0] == 400
    assert (await get(f"/usage/usual?project_ids={others}"))[1]["total"]["num_model_requests"] == 0
    with pytest.raises(openai.PermissionDeniedError, match=r"usage\.read"):
        await admin_client(gateway, listed.key).admin.organization.usage.costs(**range_)
    for path in (
        "/usage_events",
        "/projects",
        "/budgets",
        f"/projects/{listed.id}/api_keys",
        "/openapi.json",
    ):
        assert (await get(path))[0] == 403, path
    written = await gateway.request("POST", "/v1/organization/requests", {}, key)
    assert written.status == 405


async def test_who_belongs_to_two_projects_reads_no_third(gateway: Gateway, engine: FakeEngine) -> None:
    """And reads it as soon as it is one of theirs."""
    tenant, somebody = await gateway.serve(engine), await user(gateway, "member")
    await gateway.client(tenant).completions.create(model=SERVED, prompt="one")
    [event] = await gateway.events(1)
    key, statuses = await admin_key(gateway, "member", somebody), []
    for project_id in ((await gateway.tenant("one")).id, (await gateway.tenant("two")).id, tenant.id):
        await gateway.admin("POST", f"/projects/{project_id}/users", {"role": "owner", "user_id": somebody})
        await gateway.refresh()
        answer = await gateway.request("GET", f"/v1/organization/requests/{event['request_id']}", key=key)
        statuses.append(answer.status)
    assert statuses == [404, 404, 200]


async def test_bad_queries(listed: Tenant, gateway: Gateway) -> None:
    for query, param in (
        ("limit=101", "limit"),
        ("page=page_1", "page"),
        ("page=page_zz_zz", "page"),
        ("page=page_ffffffffffffffffff_00000000000000000000000000000000", "page"),
        ("status=good", "status.0"),
        ("stream=perhaps", "stream"),
        ("tenant=x", "tenant"),
    ):
        body = await gateway.admin("GET", f"/requests?{query}", status=400)
        assert (body["error"]["code"], body["error"]["param"]) == ("invalid_value", param)
