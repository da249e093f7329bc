"""No way around a budget: whatever generates is refused, for each scope that may be over."""

from __future__ import annotations

import pytest

from gateway.http.router import Router
from tests.fakes.engine import FakeEngine
from tests.gateway.http.answers import GENERATES, refused
from tests.harness import SERVED, Gateway

FREE = {"/v1/files", "/v1/batches", "/v1/webhook_endpoints"}
"""What costs nothing by itself: lines of a batch are refused one by one, as tests of batches say."""
WHOLE = {"/v1/embeddings"}
"""What has no stream."""


@pytest.mark.parametrize(
    ("scope", "code"),
    [
        ("organization", "organization_spend_limit_exceeded"),
        ("tenant", "project_spend_limit_exceeded"),
        ("key", "insufficient_quota"),
    ],
)
async def test_over_budget_is_429_on_every_route_that_generates(
    gateway: Gateway, engine: FakeEngine, scope: str, code: str
) -> None:
    """Duty B13: a key over its budget gets 429 on all routes, streamed or not, and no engine sees the request."""
    tenant = await gateway.serve(engine)
    ids = (tenant.id if scope != "organization" else None, tenant.key_id if scope == "key" else None)
    await gateway.sql(
        "INSERT INTO budget (id, scope, tenant_id, key_id, period, limit_nanousd) VALUES ('b', $1, $2, $3, 'daily', 1)",
        scope,
        *ids,
    )
    router = gateway.app.edge._handler
    assert isinstance(router, Router)
    asked = [route.removeprefix("POST ") for route in router.routes if route.startswith("POST ")]
    paths = [path for path in asked if path not in FREE and "{" not in path]
    assert len(paths) >= 2
    for path in paths:
        assert path in GENERATES, f"say here how {path} is called"
        for extra in ({},) if path in WHOLE else ({}, {"stream": True}):
            error = await refused(
                gateway, "POST", path, {"model": SERVED, **GENERATES[path], **extra}, key=tenant.key
            )
            assert (error["status"], error["type"], error["code"]) == (429, "insufficient_quota", code), path
            assert error["headers"]["x-should-retry"] == "false"
            assert "retry-after" not in error["headers"]
    assert engine.requests == []
    assert await gateway.sql("SELECT * FROM usage_event") == []
