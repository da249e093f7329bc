"""The admin application's door and its errors: the table's shape, nothing without an admin key."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.tcp_proxy import TcpProxy
from tests.harness import Gateway

PREFIX = "/v1/organization"
EVERYTHING = (
    ("GET", "/projects"),
    ("POST", "/projects"),
    ("GET", "/projects/x"),
    ("POST", "/projects/x/archive"),
    ("GET", "/projects/x/api_keys"),
    ("POST", "/projects/x/api_keys"),
    ("DELETE", "/projects/x/api_keys/y"),
    ("GET", "/routes"),
    ("GET", "/prices"),
    ("GET", "/pools"),
    ("GET", "/budgets"),
    ("GET", "/usage_events"),
    ("GET", "/requests"),
    ("GET", "/openapi.json"),
)


async def test_the_door(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    for method, path in EVERYTHING:
        for key, status in ((None, 401), ("tw-abcdefgh-" + "A" * 43, 401), (tenant.key, 403)):
            answer = await gateway.request(method, PREFIX + path, key=key)
            assert answer.status == status, (method, path)
            error = (await answer.json())["error"]
            assert set(error) == {"message", "type", "param", "code"}
            if status == 403:
                assert error["code"] == "insufficient_permissions"
    for key, status in ((None, 401), (tenant.key, 404), (gateway.admin_key, 404)):
        assert (await gateway.request("GET", f"{PREFIX}/nothing", key=key)).status == status


async def test_the_description_shows_the_errors_that_are_answered(gateway: Gateway) -> None:
    document = await gateway.admin("GET", "/openapi.json")
    operations = [
        operation
        for path, methods in document["paths"].items()
        for operation in methods.values()
        if path.startswith(PREFIX)
    ]
    assert operations
    for operation in operations:
        assert set(operation["responses"]) == {"200", "4XX"}, operation["operationId"]
    shown = operations[0]["responses"]["4XX"]["content"]["application/json"]["schema"]["$ref"]
    assert shown == "#/components/schemas/Refused"
    refused = await gateway.admin("POST", "/projects", {}, 400)
    assert set(refused["error"]) == set(document["components"]["schemas"]["Refusal"]["properties"])


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("POST", "/projects", {}, (400, "missing_required_parameter", "name")),
        ("POST", "/projects", {"name": 5}, (400, "invalid_value", "name")),
        ("POST", "/projects", {"name": ""}, (400, "invalid_value", "name")),
        ("POST", "/projects", {"name": "a", "is_admin": True}, (400, "invalid_value", "is_admin")),
        ("GET", "/projects?limit=0", None, (400, "invalid_value", "limit")),
        ("GET", "/projects?limit=1000", None, (400, "invalid_value", "limit")),
        ("GET", "/usage_events?after=evt_zzz", None, (400, "invalid_value", "after")),
        ("POST", "/projects/none/api_keys", {"name": "k"}, (404, None, None)),
        (
            "POST",
            "/pools",
            {"name": "p", "spec": {"model": "m"}},
            (400, "missing_required_parameter", "spec.served_names"),
        ),
        (
            "POST",
            "/routes",
            {"served_model": "m", "pool_id": "none", "sku": "s"},
            (400, "invalid_value", "pool_id"),
        ),
        ("POST", "/budgets", {"period": "hourly", "limit_nanousd": 1}, (400, "invalid_value", "period")),
        (
            "POST",
            "/budgets",
            {"period": "daily", "limit_nanousd": 1, "zone": "Mars/X"},
            (400, "invalid_value", "zone"),
        ),
        (
            "POST",
            "/budgets",
            {"period": "daily", "limit_nanousd": 1, "zone": "localtime"},
            (400, "invalid_value", "zone"),
        ),
        (
            "POST",
            "/budgets",
            {"period": "daily", "limit_nanousd": 1, "zone": "America"},
            (400, "invalid_value", "zone"),
        ),
        ("POST", "/projects", {"name": "a\0"}, (400, None, None)),
        ("GET", "/projects/%00", None, (400, None, None)),
        ("GET", "/projects?after=%00", None, (400, None, None)),
        ("DELETE", "/routes/none", None, (404, None, None)),
        ("GET", "/nothing", None, (404, None, None)),
        ("PATCH", "/projects", None, (405, None, None)),
    ],
)
async def test_errors(gateway: Gateway, method: str, path: str, body: Any, expected: Any) -> None:
    answer = await gateway.request(method, PREFIX + path, body, gateway.admin_key)
    error = (await answer.json())["error"]
    assert (answer.status, error["code"], error["param"]) == expected
    assert answer.headers["x-request-id"].startswith("req_")


async def test_reading_while_the_database_is_away(database_url: str, cache_url: str, tmp_path: Path) -> None:
    """Duty C21: 503 with a hint to retry, never 401 or 500; and reading goes on when it is back, without a restart."""
    proxy = TcpProxy(database_url)
    await proxy.restore()
    path = f"{PREFIX}/usage/completions?start_time=0&end_time=60"
    async with Gateway(proxy.url, cache_url, tmp_path) as gateway:
        assert (await gateway.request("GET", path, key=gateway.admin_key)).status == 200
        await proxy.cut()
        for asked in (path, f"{PREFIX}/requests", f"{PREFIX}/costs?start_time=0&end_time=60"):
            answer = await gateway.request("GET", asked, key=gateway.admin_key)
            error = (await answer.json())["error"]
            assert (answer.status, error["type"]) == (503, "service_unavailable_error"), asked
            assert answer.headers["retry-after"] == "1"
        await proxy.restore()
        async with asyncio.timeout(60):
            while (await gateway.request("GET", path, key=gateway.admin_key)).status != 200:  # noqa: ASYNC110  # it tells nobody
                await asyncio.sleep(0.05)
    await proxy.cut()


async def test_a_body_that_is_no_json(gateway: Gateway) -> None:
    answer = await gateway.request("POST", f"{PREFIX}/projects", key=gateway.admin_key, data=b"{")
    assert answer.status == 400
    assert (await answer.json())["error"]["type"] == "invalid_request_error"
