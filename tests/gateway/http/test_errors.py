"""The error table, row by row, over raw HTTP and as the stock client's typed exceptions."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from gateway.errors import RateLimited
from gateway.http.errors import error_event, render_error
from tests.fakes.engine import FakeEngine
from tests.fakes.script import BROKEN, OVERLOADED, Script
from tests.gateway.http.answers import BODY, CHAT, refused, row
from tests.harness import Gateway, Tenant


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ("{", None, None),
        ("[1]", None, None),
        ("{}", "missing_required_parameter", "model"),
        ('{"model": "served-model"}', "missing_required_parameter", "messages"),
        ('{"model": "served-model", "messages": [{"role": "user"}], "n": 0}', "invalid_value", "n"),
        ('{"model": "served-model", "messages": [{"role": "user"}], "stream": "yes"}', None, "stream"),
    ],
)
async def test_bad_bodies(
    gateway: Gateway, engine: FakeEngine, body: str, code: str | None, param: str
) -> None:
    tenant = await gateway.serve(engine)
    error = await refused(gateway, "POST", CHAT, key=tenant.key, data=body)
    assert row(error) == (400, "invalid_request_error", code)
    assert error["param"] == param


class TestBodyLimit:
    @pytest.fixture
    def gateway_changes(self) -> dict[str, Any]:
        return {"server": {"max_body_bytes": 2000}}

    async def test_too_large(self, gateway: Gateway, engine: FakeEngine) -> None:
        tenant = await gateway.serve(engine)
        large = json.dumps(BODY | {"x": "y" * 3000}).encode()

        async def pieces() -> Any:
            for at in range(0, len(large), 500):
                yield large[at : at + 500]

        for data in (large, pieces()):
            error = await refused(gateway, "POST", CHAT, key=tenant.key, data=data)
            assert row(error) == (413, "invalid_request_error", None)
        answer = await gateway.request("POST", CHAT, BODY, tenant.key)
        assert answer.status == 200
        error = await refused(gateway, "POST", "/v1/organization/projects", key=gateway.admin_key, data=large)
        assert error["status"] == 413


async def limit(gateway: Gateway, tenant: Tenant, **limits: int) -> None:
    await gateway.admin("POST", f"/projects/{tenant.id}/limits", limits)
    await gateway.refresh()


async def test_too_many_requests(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty D28: a refusal says when to come back, in OpenAI's words."""
    tenant = await gateway.serve(engine)
    await limit(gateway, tenant, requests_per_min=1)
    good = await gateway.request("POST", CHAT, BODY, tenant.key)
    assert good.status == 200
    assert good.headers["x-ratelimit-limit-requests"] == "1"
    assert good.headers["x-ratelimit-remaining-requests"] == "0"
    error = await refused(gateway, "POST", CHAT, BODY, key=tenant.key)
    assert row(error) == (429, "requests", "rate_limit_exceeded")
    assert int(error["headers"]["retry-after"]) > 0
    assert int(error["headers"]["retry-after-ms"]) > 0
    assert error["headers"]["x-ratelimit-remaining-requests"] == "0"
    assert error["headers"]["x-ratelimit-reset-requests"].endswith("s")
    with pytest.raises(openai.RateLimitError):
        await gateway.client(tenant).chat.completions.create(**BODY)
    assert len(engine.requests) == 1


async def test_more_than_the_whole_limit(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    await limit(gateway, tenant, tokens_per_min=5)
    error = await refused(gateway, "POST", CHAT, BODY | {"max_tokens": 100}, key=tenant.key)
    assert row(error) == (429, "tokens", "rate_limit_exceeded")
    assert error["headers"]["x-should-retry"] == "false"
    assert "retry-after" not in error["headers"]


async def test_no_money_left(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    budget = {"project_id": tenant.id, "period": "monthly", "limit_nanousd": 10}
    made = await gateway.admin("POST", "/budgets", budget)
    error = await refused(gateway, "POST", CHAT, BODY, key=tenant.key)
    assert row(error) == (429, "insufficient_quota", "project_spend_limit_exceeded")
    assert error["headers"]["x-should-retry"] == "false"
    assert "retry-after" not in error["headers"]
    with pytest.raises(openai.RateLimitError):
        await gateway.client(tenant, max_retries=2).chat.completions.create(**BODY)
    assert engine.requests == []
    await gateway.admin("POST", f"/budgets/{made['id']}", {"limit_nanousd": 10**12})
    answer = await gateway.request("POST", CHAT, BODY, tenant.key)
    assert answer.status == 200
    [event] = await gateway.events(1)
    [listed] = (await gateway.admin("GET", f"/budgets?project_id={tenant.id}"))["data"]
    [period] = (await gateway.admin("GET", f"/budgets/{listed['id']}/periods"))["data"]
    assert (period["held_nanousd"], period["spent_nanousd"]) == (0, event["amount_nanousd"])


async def test_engines_troubles(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    engine.script(Script(refuse=OVERLOADED), *[Script(refuse=BROKEN)] * 3)
    error = await refused(gateway, "POST", CHAT, BODY, key=tenant.key)
    assert row(error) == (503, "service_unavailable_error", "server_is_overloaded")
    assert error["headers"]["retry-after"] == "1"
    error = await refused(gateway, "POST", CHAT, BODY, key=tenant.key)
    assert row(error) == (500, "server_error", None)
    assert "Something broke" not in error["message"], "what an engine says about itself is not the caller's"


async def test_a_stock_client_retries_what_may_be_retried(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    engine.script(Script(refuse=OVERLOADED))
    client = gateway.client(tenant, max_retries=1)
    answer = await client.chat.completions.create(**BODY)
    assert answer.choices[0].message.content == "hi"
    events = await gateway.events(2)
    assert [event["client_retry_count"] for event in events] == [0, 1]


def test_rendering() -> None:
    status, headers, body = render_error(
        RateLimited("tokens", "slow down", 1.2, {"x-ratelimit-limit-tokens": "5"})
    )
    assert status == 429
    assert headers == {
        "content-type": "application/json",
        "x-ratelimit-limit-tokens": "5",
        "retry-after": "2",
        "retry-after-ms": "1200",
    }
    assert json.loads(body)["error"]["message"] == "slow down"
    event = error_event(RateLimited("tokens", "slow down", None))
    assert event.startswith(b"data: {")
    assert event.endswith(b"}\n\n")
