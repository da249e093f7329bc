"""`/v1/embeddings` through the strict `openai` client: passed on, isolated, limited, held for and billed."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from gateway.ledger.repository.rollups import fold_usage
from tests.fakes.engine import FakeEngine
from tests.fakes.script import TOO_LONG, Script
from tests.harness import SERVED, Gateway, Tenant

TEXT = "one two three"


def strict(gateway: Gateway, tenant: Tenant) -> openai.AsyncOpenAI:
    return gateway.client(tenant, _strict_response_validation=True)


@pytest.mark.parametrize("form", [openai.NOT_GIVEN, "float"], ids=["base64", "float"])
async def test_vectors_and_their_bill(gateway: Gateway, engine: FakeEngine, form: Any) -> None:
    """The client asks for base64 by itself and unpacks it, but only after it has validated the vectors as numbers."""
    tenant = await gateway.serve(engine)
    client = strict(gateway, tenant) if form == "float" else gateway.client(tenant)
    answer = await client.embeddings.create(
        model=SERVED, input=["one two", "three"], encoding_format=form, dimensions=2, user="u1"
    )
    assert [(item.index, item.embedding) for item in answer.data] == [(0, [7.0, 0.0]), (1, [5.0, 1.0])]
    assert (answer.model, answer.usage.prompt_tokens, answer.usage.total_tokens) == (SERVED, 2, 2)
    [event] = await gateway.events(1)
    assert (event["endpoint"], event["status"], event["user_ref"] is not None) == ("embeddings", "ok", True)
    assert (event["prompt_uncached_tokens"], event["completion_tokens"]) == (2, 0)
    assert event["amount_nanousd"] == 2 * 100
    [seen] = engine.requests
    assert seen.path == "/v1/embeddings"
    assert seen.body["dimensions"] == 2
    assert "seed" not in seen.body
    assert "x-max-output-tokens" not in seen.headers


async def test_the_admin_reads_them_as_embeddings(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    await strict(gateway, tenant).embeddings.create(model=SERVED, input=TEXT, encoding_format="float")
    [event] = await gateway.events(1)
    async with gateway.app.database.transaction() as connection:
        assert await fold_usage(connection, 10) == 1
    start = int(event["occurred_at"].timestamp()) - 60
    admin = openai.AsyncOpenAI(
        admin_api_key=gateway.admin_key, base_url=f"{gateway.url}/v1", _strict_response_validation=True
    )
    gateway.adopt(admin)
    usage = admin.admin.organization.usage
    [result] = [one for bucket in (await usage.embeddings(start_time=start)).data for one in bucket.results]
    assert result.object == "organization.usage.embeddings.result"
    assert (result.input_tokens, result.num_model_requests) == (3, 1)
    assert not [one for bucket in (await usage.completions(start_time=start)).data for one in bucket.results]


async def test_an_external_engine_gets_no_field_of_ours(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine, kind="external")
    engine.api_key = None
    await strict(gateway, tenant).embeddings.create(model=SERVED, input=TEXT, encoding_format="float")
    assert engine.requests[0].body == {"model": engine.model, "input": TEXT, "encoding_format": "float"}
    [event] = await gateway.events(1)
    assert event["amount_nanousd"] == 300


async def test_only_the_callers_own_names(gateway: Gateway, engine: FakeEngine) -> None:
    pool_id = await gateway.pool(engine)
    mine, other = await gateway.tenant("mine"), await gateway.tenant("other")
    await gateway.route(pool_id, "theirs", other)
    await gateway.refresh()
    for name in ("theirs", "nobodys"):
        with pytest.raises(openai.NotFoundError) as caught:
            await strict(gateway, mine).embeddings.create(model=name, input=TEXT, encoding_format="float")
        assert caught.value.code == "model_not_found"
    assert engine.requests == []


async def test_limits_and_holds_are_those_of_any_request(gateway: Gateway, engine: FakeEngine) -> None:
    """A hold is for the prompt alone: nothing is generated."""
    tenant = await gateway.serve(engine)
    client = strict(gateway, tenant)
    await gateway.admin(
        "POST", "/budgets", {"period": "monthly", "limit_nanousd": 40_000, "project_id": tenant.id}
    )
    await client.embeddings.create(
        model=SERVED, input=TEXT, encoding_format="float"
    )  # 400 bytes at most: 40,000 nano-USD
    await gateway.events(1)
    with pytest.raises(openai.RateLimitError) as caught:
        await client.embeddings.create(model=SERVED, input=TEXT * 40, encoding_format="float")
    assert caught.value.code == "project_spend_limit_exceeded"
    await gateway.sql("UPDATE rate_limit SET requests_per_day = 1 WHERE tenant_id = $1", tenant.id)
    await gateway.refresh()
    await client.embeddings.create(model=SERVED, input=TEXT, encoding_format="float")
    with pytest.raises(openai.RateLimitError) as limited:
        await client.embeddings.create(model=SERVED, input=TEXT, encoding_format="float")
    assert limited.value.code == "rate_limit_exceeded"
    await gateway.events(2)


BAD: list[tuple[dict[str, Any], str | None, str]] = [
    ({}, "missing_required_parameter", "input"),
    ({"input": []}, "invalid_value", "input"),
    ({"input": {}}, None, "input"),
    ({"input": ["x"] * 2049}, "invalid_value", "input"),
    ({"input": "x", "stream": True}, "unsupported_parameter", "stream"),
]


async def test_what_makes_no_sense_is_refused_here(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    for fields, code, param in BAD:
        answer = await gateway.request("POST", "/v1/embeddings", {"model": SERVED, **fields}, tenant.key)
        error = (await answer.json())["error"]
        assert (answer.status, error["code"], error["param"]) == (400, code, param)
    assert engine.requests == []


async def test_the_engines_refusal_costs_nothing(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    engine.script(Script(refuse=TOO_LONG))
    with pytest.raises(openai.BadRequestError) as caught:
        await strict(gateway, tenant).embeddings.create(model=SERVED, input=TEXT, encoding_format="float")
    assert caught.value.code == "context_length_exceeded"
    [event] = await gateway.events(1)
    assert event["amount_nanousd"] == 0
