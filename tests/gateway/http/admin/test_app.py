"""The admin application's door and its errors: the table's shape, nothing without an admin key."""

from __future__ import annotations

from typing import Any

import pytest

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
    ("POST", "/requests"),
    ("GET", "/openapi.json"),
    ("GET", "/nothing"),
)


async def test_the_door(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    for method, path in EVERYTHING:
        for key in (None, tenant.key, "tw-abcdefgh-" + "A" * 43):
            answer = await gateway.request(method, PREFIX + path, key=key)
            assert answer.status == 401, (method, path)
            assert set((await answer.json())["error"]) == {"message", "type", "param", "code"}


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


async def test_a_body_that_is_no_json(gateway: Gateway) -> None:
    answer = await gateway.request("POST", f"{PREFIX}/projects", key=gateway.admin_key, data=b"{")
    assert answer.status == 400
    assert (await answer.json())["error"]["type"] == "invalid_request_error"
