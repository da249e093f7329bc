"""The data plane through the unmodified `openai` client, and byte for byte."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest

from gateway.clock import SystemClock
from gateway.errors import Overloaded
from gateway.exchange import Sink
from gateway.http.middleware import Edge
from gateway.http.openai_routes import OpenAIRoutes
from gateway.ids import IdSource, KeyId, TenantId
from gateway.obs.metrics import Metrics
from gateway.tenancy.principal import MODEL_SCOPE, Principal
from tests.fakes import replies
from tests.fakes.engine import FakeEngine
from tests.fakes.script import Script
from tests.gateway.http.answers import BODY, CHAT
from tests.harness import SERVED, Gateway

MESSAGES: Any = [{"role": "user", "content": "one two three"}]
COST = 3 * 100 + 3 * 1000


async def test_chat(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    answer = await gateway.client(tenant).chat.completions.create(model=SERVED, messages=MESSAGES, user="u1")
    assert answer.model == SERVED
    assert answer.choices[0].message.content == "one two three"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 3)
    [event] = await gateway.events(1)
    assert (event["status"], event["tenant_id"], event["served_model"]) == ("ok", tenant.id, SERVED)
    assert (event["amount_nanousd"], event["key_id"], event["is_stream"]) == (COST, tenant.key_id, False)
    assert event["user_ref"]
    assert "u1" not in event["user_ref"]
    [seen] = engine.requests
    assert seen.headers["x-gateway-request-id"] == event["request_id"]
    assert isinstance(seen.body["seed"], int)


@pytest.mark.parametrize("asked", [False, True])
async def test_chat_stream(gateway: Gateway, engine: FakeEngine, asked: bool) -> None:
    tenant = await gateway.serve(engine)
    engine.default = Script(cached_tokens=2)
    options: Any = {"stream_options": {"include_usage": True}} if asked else {}
    stream = await gateway.client(tenant).chat.completions.create(
        model=SERVED, messages=MESSAGES, stream=True, **options
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "one two three"
    assert {chunk.model for chunk in chunks} == {SERVED}
    usages = [chunk.usage for chunk in chunks if chunk.usage is not None]
    assert [usage.completion_tokens for usage in usages] == ([3] if asked else [])
    [event] = await gateway.events(1)
    assert (event["prompt_uncached_tokens"], event["prompt_cached_tokens"]) == (1, 2)
    assert event["amount_nanousd"] == 100 + 2 * 10 + 3 * 1000
    assert event["ttft_ms"] is not None


async def test_completions_whole_and_streamed_cost_the_same(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    completions = gateway.client(tenant).completions
    whole = await completions.create(model=SERVED, prompt="one two three")
    assert whole.choices[0].text == "one two three"
    stream = await completions.create(model=SERVED, prompt="one two three", stream=True)
    assert "".join([chunk.choices[0].text async for chunk in stream]) == "one two three"
    events = await gateway.events(2)
    assert [event["amount_nanousd"] for event in events] == [COST, COST]
    assert {event["endpoint"] for event in events} == {"completions"}


async def test_every_byte_passes(gateway: Gateway, engine: FakeEngine) -> None:
    """Odd but legal bytes: unknown fields, comments, unusual numbers, CRLF, an event in many pieces."""
    chunk = b'data: {"id":"c","object":"x","new_field":{"a":[1e-05,1.0]},"choices":[{"delta":{"content":"\\u00fc"}}]}'
    usage = replies.sse({"id": "c", "choices": [], "usage": replies.Usage(5, 7).json()})
    sent = b": hello\n\n" + chunk + b"\n\n" + chunk + b"\r\n\r\n" + 'data: {"t":"€"}\n\n'.encode()
    engine.script(Script(raw=sent + usage + replies.DONE))
    tenant = await gateway.serve(engine)
    body = {"model": SERVED, "messages": MESSAGES, "stream": True}
    answer = await gateway.request("POST", "/v1/chat/completions", body, tenant.key)
    assert await answer.read() == sent + replies.DONE
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-cache", "no")
    assert answer.headers["x-request-id"].startswith("req_")
    assert answer.headers["openai-processing-ms"].isdecimal()
    [event] = await gateway.events(1)
    assert (event["prompt_uncached_tokens"], event["completion_tokens"]) == (5, 7)


async def test_models_are_the_callers_own(gateway: Gateway, engine: FakeEngine) -> None:
    pool_id = await gateway.pool(engine)
    mine, other = await gateway.tenant("mine"), await gateway.tenant("other")
    await gateway.route(pool_id, "common")
    await gateway.route(pool_id, "org/mine", mine)
    await gateway.route(pool_id, "others", other)
    await gateway.admin(
        "POST", f"/projects/{other.id}/model_permissions", {"mode": "deny_list", "model_ids": ["common"]}
    )
    await gateway.refresh()
    models = gateway.client(mine).models
    assert [model.id async for model in models.list()] == ["common", "org/mine"]
    assert (await models.retrieve("org/mine")).id == "org/mine"
    assert [model.id async for model in gateway.client(other).models.list()] == ["others"]
    answers = set()
    for name in ("others", "nobodys"):
        with pytest.raises(openai.NotFoundError) as caught:
            await models.retrieve(name)
        answers.add(caught.value.response.text.replace(name, "NAME"))
    assert len(answers) == 1, "unknown and forbidden must look the same"


async def test_forbidden_and_unknown_names_are_one_answer(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    other = await gateway.tenant("other")
    await gateway.route(await gateway.pool(engine, name="second"), "others-model", other)
    await gateway.refresh()
    seen = []
    for name in ("others-model", "unknown-mode"):
        body = {"model": name, "messages": MESSAGES}
        answer = await gateway.request("POST", "/v1/chat/completions", body, tenant.key)
        headers = sorted(set(answer.headers) - {"Date"})
        seen.append((answer.status, (await answer.text()).replace(name, "NAME"), headers))
    assert seen[0] == seen[1]
    assert seen[0][0] == 404
    assert engine.requests == []


async def test_unknown_fields_reach_the_engine_and_stolen_ones_do_not(
    gateway: Gateway, engine: FakeEngine
) -> None:
    """Duty D29: no header or field of a caller's says whose request it is."""
    tenant = await gateway.serve(engine)
    extra = {"new_option": {"deep": [1, None]}, "cache_salt": "a-victim's", "priority": -100}
    headers = {
        "x-gateway-inference-fairness-id": "forged",
        "x-cache-salt": "forged",
        "x-max-output-tokens": "9999",
    }
    await gateway.client(tenant).chat.completions.create(
        model=SERVED, messages=MESSAGES, max_tokens=2, seed=7, extra_body=extra, extra_headers=headers
    )
    [seen] = engine.requests
    assert seen.body["new_option"] == {"deep": [1, None]}
    assert "cache_salt" not in seen.body
    assert "priority" not in seen.body
    assert (seen.body["seed"], seen.body["model"]) == (7, engine.model)
    assert seen.headers["x-max-output-tokens"] == "2"
    assert int(seen.headers["x-max-prompt-tokens"]) >= 3
    assert "forged" not in json.dumps(seen.headers)
    assert seen.headers["authorization"] == f"Bearer {engine.api_key}"


async def test_a_user_never_chooses_a_quota(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty D29: whatever end user or project a caller names, its own credential's limit is what counts."""
    tenant, other = await gateway.serve(engine), await gateway.tenant("other")
    await gateway.admin("POST", f"/projects/{tenant.id}/limits", {"requests_per_day": 2})
    await gateway.refresh()
    statuses = []
    for user in ("one", "two", other.id):
        body = {"model": SERVED, "messages": MESSAGES, "user": user, "metadata": {"project_id": other.id}}
        headers = {"openai-project": other.id, "openai-organization": other.id, "x-tenant-id": other.id}
        answer = await gateway.request("POST", "/v1/chat/completions", body, tenant.key, headers=headers)
        statuses.append(answer.status)
    assert statuses == [200, 200, 429]
    assert {event["tenant_id"] for event in await gateway.events(2)} == {tenant.id}


async def test_salts_differ_between_tenants(gateway: Gateway, engine: FakeEngine) -> None:
    tenants = [await gateway.serve(engine), await gateway.tenant("b")]
    await gateway.refresh()
    for tenant in (tenants[0], tenants[1], tenants[0]):
        await gateway.client(tenant).chat.completions.create(model=SERVED, messages=MESSAGES)
    for name in ("x-cache-salt", "x-gateway-inference-fairness-id"):
        first, second, third = (seen.headers[name] for seen in engine.requests)
        assert first == third
        assert first != second
        assert bytes.fromhex(first)
        assert tenants[0].id not in first


async def test_canary_100_streams_never_cross(gateway: Gateway, engine: FakeEngine) -> None:
    pool_id = await gateway.pool(engine)
    await gateway.route(pool_id)
    tenants = [await gateway.tenant(f"t{number}") for number in range(5)]
    await gateway.refresh()
    gate = asyncio.Event()
    engine.default = Script(token_delay_s=0.002, gate=gate)
    clients = [gateway.client(tenant) for tenant in tenants]

    async def run(number: int) -> None:
        marker = f"marker-{number}-"
        words = [f"{marker}{index}" for index in range(5 + number % 7)]
        stream = await clients[number % 5].chat.completions.create(
            model=SERVED, messages=[{"role": "user", "content": " ".join(words)}], stream=True
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        assert text.split() == words

    running = [asyncio.create_task(run(number)) for number in range(100)]
    await engine.wait_for(lambda: engine.running > 10)
    gate.set()
    await asyncio.gather(*running)
    events = await gateway.events(100)
    expected = sorted((tenants[number % 5].id, 5 + number % 7) for number in range(100))
    assert sorted((event["tenant_id"], event["completion_tokens"]) for event in events) == expected


async def test_an_external_engine_gets_plain_openai_and_no_key(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine, kind="external")
    engine.api_key = None
    stream = await gateway.client(tenant).chat.completions.create(
        model=SERVED, messages=MESSAGES, stream=True, max_tokens=2
    )
    text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == "one two"
    [seen] = engine.requests
    assert "authorization" not in seen.headers
    assert not [name for name in seen.headers if name.startswith(("x-gateway", "x-cache", "x-fairness"))]
    [event] = await gateway.events(1)
    assert (event["status"], event["completion_tokens"]) == ("ok", 2)


@pytest.mark.parametrize(("said", "kept"), [("2", 2), ("9" * 5000, 0), ("-1", 0), ("x", 0)])
async def test_a_retry_count_that_makes_no_sense_is_none(
    gateway: Gateway, engine: FakeEngine, said: str, kept: int
) -> None:
    tenant = await gateway.serve(engine)
    headers = {"x-stainless-retry-count": said}
    answer = await gateway.request("POST", CHAT, BODY, key=tenant.key, headers=headers)
    assert answer.status == 200
    [event] = await gateway.events(1)
    assert event["client_retry_count"] == kept


async def test_what_is_refused_is_counted_though_it_has_no_event(
    gateway: Gateway, engine: FakeEngine
) -> None:
    tenant = await gateway.serve(engine)
    client = gateway.client(tenant)
    await client.chat.completions.create(model=SERVED, messages=MESSAGES, user="u1")
    await gateway.sql(
        "INSERT INTO budget (id, scope, tenant_id, period, limit_nanousd) VALUES ('b', 'tenant', $1, 'monthly', 1)",
        tenant.id,
    )
    for model in (SERVED, "made-up"):
        with pytest.raises(openai.APIStatusError):
            await client.chat.completions.create(model=model, messages=MESSAGES)
    await gateway.app.notebook.flush()
    rows = await gateway.sql(
        "SELECT tenant_id, key_id, served_model, reason, requests FROM refusal_minute ORDER BY reason"
    )
    assert [tuple(row.values()) for row in rows] == [
        (tenant.id, tenant.key_id, "", "model_not_found", 1),
        (tenant.id, tenant.key_id, SERVED, "project_spend_limit_exceeded", 1),
    ]
    [event] = await gateway.events(1)
    rows = await gateway.sql("SELECT end_user FROM user_pseudonym WHERE user_ref = $1", event["user_ref"])
    assert [row["end_user"] for row in rows] == ["u1"]


class Breaking:
    """The parts that a response needs of the routes: anybody may ask, and every answer breaks after its first event."""

    async def tenant(self, *_: Any) -> Principal:
        return Principal(TenantId("proj_a"), KeyId("key_a"), frozenset({MODEL_SCOPE}))

    def resolve(self, *_: Any) -> None:
        return None

    async def run(self, caller: Any, request: Any, request_id: Any, sink: Sink) -> None:
        await sink.stream(
            {}, replies.chunk(True, {"id": "c", "created": 7, "model": "m"}, "a", True), last=False
        )
        raise Overloaded


@pytest.mark.parametrize("is_read", [True, False])
async def test_the_last_event_of_a_response_waits_for_a_reader_once(
    monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    monkeypatch.setattr("gateway.http.middleware.LAST_WORD_S", 0.01)
    parts: Any = Breaking()
    routes = OpenAIRoutes(parts, parts, parts, parts, parts, 1000)
    sent: list[Any] = []
    asked = [{"type": "http.request", "body": b'{"model": "m", "input": "x", "stream": true}'}]

    async def send(message: Any) -> None:
        sent.append(message)
        if len(sent) == 3 and not is_read:
            await asyncio.Event().wait()

    async def receive() -> Any:
        return asked.pop() if asked else await asyncio.Event().wait()

    metrics = Metrics()
    scope: Any = {"type": "http", "method": "POST", "path": "/v1/responses", "headers": [], "client": None}
    async with asyncio.timeout(60):
        await Edge(routes.responses, IdSource(), SystemClock(), metrics)(scope, receive, send)
    assert [message.get("more_body") for message in sent] == [None, True, False]
    assert b"event: response.failed" in sent[-1]["body"]
    assert b'unexpected_errors_total{edge="http"}' not in metrics.render()
