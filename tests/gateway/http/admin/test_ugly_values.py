"""Values that no sensible caller sends, in each field of each admin route: an error of the table's shape, never a bug."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from gateway.http.admin.access import OPEN
from tests.harness import Gateway

ROOT = "/v1/organization"
UGLY = (
    b"-1",
    b"9223372036854775808",
    b"1000000000000",
    b"1e400",
    b"NaN",
    b"1.5",
    b'""',
    b'"\\ud800"',
    b'["\\ud800"]',
    b'"0001-01-01T00:00:00+14:00"',
    b'"9999-12-31T23:59:59-14:00"',
    b"1" * 5000,
)
BODIES = (b"", b"{", b"null", b"\xff", b"[" * 990 + b"]" * 990, b"[" * 100_000, b'{"a":' + b"1" * 5000 + b"}")
QUERIES = ("-1", "9223372036854775808", "32503680000", "NaN", "%ED%A0%80", "page_7fffffffffffffff", "")
# What needs no body may answer an empty one; what is for a browser alone refuses a key before it reads anything.
OUTSIDE = {f"{ROOT}{route.split()[1]}": {403} for route in OPEN} | {
    f"{ROOT}/sessions/logout_everywhere": {200}
}
GOOD: dict[str, Any] = {
    "name": "x",
    "currency": "USD",
    "interval": "month",
    "period": "daily",
    "limit_nanousd": 1000,
    "threshold_amount": 100,
    "threshold_percent": 50,
    "notification_channel": {"type": "email", "recipients": ["a@example.com"]},
    "sku": "other",
    "input_nanousd_per_token": 1,
    "cached_input_nanousd_per_token": 1,
    "output_nanousd_per_token": 1,
    "served_model": "m",
    "idempotency_key": "k",
    "reason": "r",
    "amount_nanousd": 1,
    "format": "csv",
    "start_date": "2026-01-01",
    "end_date": "2026-01-02",
    "mode": "allow_list",
    "model_ids": ["m"],
    "enabled": True,
    "published": False,
    "stripe_customer_id": "cus_1",
    "spec": {"model": "/x", "served_names": ["n"]},
    "start_time": 0,
    "group_by": "model",
    "q": "proj",
}


async def test_ugly_values_in_bodies(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    ids = {"project_id": tenant.id}
    found = await gateway.admin("GET", "/openapi.json")
    tried = 0
    for path, operation in _operations(found, "post"):
        url = _url(path, ids)
        for raw in BODIES:
            assert await _code(gateway, "POST", url, raw) in {400, 404} | OUTSIDE.get(url, set()), (
                url,
                raw[:20],
            )
        if "requestBody" not in operation:
            continue
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        if "$ref" in schema:
            schema = found["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        for field in schema["properties"]:
            sent = {name: GOOD.get(name, "x") for name in schema.get("required", ())} | ids
            sent = {name: value for name, value in sent.items() if name in schema["properties"]}
            for value in UGLY:
                body = orjson.dumps(sent | {field: orjson.Fragment(value)})
                assert await _code(gateway, "POST", url, body) < 500, (url, field, value[:20])
                tried += 1
    assert tried > 500


async def test_ugly_values_in_queries(gateway: Gateway) -> None:
    tried = 0
    for path, operation in _operations(await gateway.admin("GET", "/openapi.json"), "get"):
        named = [one for one in operation.get("parameters", ()) if one["in"] == "query"]
        needed = {one["name"]: GOOD[one["name"]] for one in named if one.get("required")}
        for one in named:
            for value in QUERIES:
                query = "&".join(f"{name}={sent}" for name, sent in (needed | {one["name"]: value}).items())
                assert await _code(gateway, "GET", f"{_url(path, {})}?{query}") < 500, (path, query)
                tried += 1
    assert tried > 300


def _operations(document: Any, method: str) -> Iterator[tuple[str, Any]]:
    """But for archiving: an archived project refuses everything else."""
    for path, operations in document["paths"].items():
        if method in operations and path.startswith("/v1/organization/") and not path.endswith("/archive"):
            yield path, operations[method]


def _url(path: str, ids: dict[str, str]) -> str:
    parts = (part.strip("{}") if part.startswith("{") else part for part in path.split("/"))
    return "/".join(ids.get(part, part) for part in parts)


async def _code(gateway: Gateway, method: str, url: str, data: bytes | None = None) -> int:
    answer = await gateway.request(method, url, key=gateway.admin_key, data=data)
    body = await answer.json()
    if answer.status >= 400:
        assert set(body["error"]) == {"message", "type", "param", "code"}, body
        assert not body["error"]["message"].startswith("Invalid URL"), body
    return answer.status
