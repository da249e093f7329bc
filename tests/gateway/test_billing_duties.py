"""What users of other gateways report about their bills, as tests of the whole request path. Each names its duty.

After every test the fixture checks the books: one event for each admitted request, nothing held.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
import redis

from gateway.ids import TenantId
from gateway.limits.policy import open_calls_key
from tests.fakes import replies
from tests.fakes.engine import FakeEngine
from tests.fakes.script import BROKEN, OVERLOADED, TOO_LONG, Script
from tests.gateway.asking import WORDS
from tests.harness import SERVED, Gateway, Tenant

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
EMBEDDINGS = "/v1/embeddings"
GENERATING = (CHAT, COMPLETIONS)
RESPONSES = "/v1/responses"
WAYS = [
    *((path, stream) for path in (*GENERATING, RESPONSES) for stream in (False, True)),
    (EMBEDDINGS, False),
]
"""Every endpoint that is paid for, and whether its answer is streamed."""


def body(path: str, stream: bool = False, **fields: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {
        CHAT: {"messages": [{"role": "user", "content": WORDS}]},
        COMPLETIONS: {"prompt": WORDS},
        EMBEDDINGS: {"input": WORDS},
        RESPONSES: {"input": WORDS},
    }[path]
    return {"model": SERVED, **asked, "stream": stream, **fields}


async def post(
    gateway: Gateway, tenant: Tenant, path: str, asked: Any
) -> tuple[aiohttp.ClientResponse, bytes]:
    answer = await gateway.request("POST", path, asked, tenant.key)
    try:
        return answer, await answer.read()
    except aiohttp.ClientError:  # a stream that was cut
        return answer, b""


def test_every_route_that_is_paid_for_is_here(gateway_routes: dict[str, set[str]]) -> None:
    """So that the tests below mean every endpoint: a new one has to be added to them."""
    posted = {path for path, methods in gateway_routes.items() if "POST" in methods}
    assert posted - {"/v1/files", "/v1/batches", "/v1/webhook_endpoints"} == {path for path, _ in WAYS}


@pytest.fixture
async def gateway_routes(gateway: Gateway) -> dict[str, set[str]]:
    router = gateway.app.edge._handler  # type: ignore[attr-defined]
    return {path: set(handlers) for path, handlers in router._handlers.items()}


# -- A: spend ---------------------------------------------------------------------------------------------

NO_ID = replies.sse({"id": "", "choices": [{"index": 0, "delta": {"content": "x"}}]})
EMPTY_USAGE = replies.sse({"id": "", "choices": [], "usage": None})
WHATEVER = {
    "ordinary": Script(),
    "no usage": Script(usage=False),
    "empty ids, null usage": Script(raw=NO_ID + EMPTY_USAGE + replies.DONE),
    "no answer at all": Script(raw=b""),
    "only [DONE]": Script(raw=replies.DONE),
    "an error event": Script(fail_after=2),
    "cut": Script(die_after=2),
    "full": Script(refuse=OVERLOADED),
    "too long": Script(refuse=TOO_LONG),
    "broken": Script(refuse=BROKEN),
}


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES])
async def test_every_admitted_request_has_one_event_under_an_id_of_ours(
    gateway: Gateway, engine: FakeEngine, path: str
) -> None:
    """Duty A1: whatever the upstream returns, an admitted request has exactly one event with an id made here."""
    tenant = await gateway.serve(engine)
    ids = []
    for name, script in WHATEVER.items():
        for stream in (stream for route, stream in WAYS if route == path):
            engine.default = script
            answer, _ = await post(gateway, tenant, path, body(path, stream))
            ids.append(answer.headers["x-request-id"])
            engine.default = Script()
            answer, raw = await post(gateway, tenant, path, body(path))  # so that the breaker stays closed
            assert answer.status == 200, (name, raw)
            ids.append(answer.headers["x-request-id"])
    events = await gateway.events(len(ids))
    assert sorted(event["request_id"] for event in events) == sorted(ids)
    assert all(one.startswith("req_") for one in ids)
    assert len(set(ids)) == 2 * len(WHATEVER) * sum(route == path for route, _ in WAYS)


@pytest.mark.parametrize(("path", "stream"), WAYS)
async def test_one_request_is_one_event_however_often_it_was_tried(
    gateway: Gateway, engine: FakeEngine, path: str, stream: bool
) -> None:
    """Duty A2: for each endpoint, streamed or not, with 0 to 2 upstream retries: one request, one settled event."""
    tenant = await gateway.serve(engine)
    for retries in (0, 1, 2):
        engine.script(*[Script(refuse=BROKEN)] * retries)
        answer, raw = await post(gateway, tenant, path, body(path, stream))
        assert answer.status == 200, raw
    for event in await gateway.events(3):
        output = 0 if path == EMBEDDINGS else 5
        assert (event["status"], event["completion_tokens"]) == ("ok", output)
        assert event["amount_nanousd"] == 500 + output * 1000
    assert [seen.attempt for seen in engine.requests] == [0, 0, 1, 0, 1, 2]
    assert await gateway.sql("SELECT count(*) AS n FROM outbox WHERE topic = 'usage'") == [{"n": 3}]


async def test_a_stream_costs_what_the_whole_answer_costs(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty A3: settled tokens of a streamed reply equal those of the same whole reply, and are more than none."""
    tenant = await gateway.serve(engine)
    wanted = []
    for path in GENERATING:
        for cached in (0, 3):
            engine.default = Script(cached_tokens=cached)
            for options in (
                {},
                {"stream": True},
                {"stream": True, "stream_options": {"include_usage": True}},
            ):
                answer, _ = await post(gateway, tenant, path, body(path) | options)
                assert answer.status == 200
                wanted.append((5 - cached, cached, 5, (5 - cached) * 100 + cached * 10 + 5 * 1000))
    columns = ("prompt_uncached_tokens", "prompt_cached_tokens", "completion_tokens", "amount_nanousd")
    events = await gateway.events(len(wanted))
    assert [tuple(event[name] for name in columns) for event in events] == wanted


@pytest.mark.parametrize("path", GENERATING)
async def test_usage_is_always_asked_for_and_hidden_from_who_did_not(
    gateway: Gateway, engine: FakeEngine, path: str
) -> None:
    """Duty A4: the engine is always asked for usage; the caller's bytes are the engine's, less what was not wanted."""
    tenant = await gateway.serve(engine)
    head = {"id": "c-1", "created": 1, "model": engine.model}
    is_chat = path == CHAT
    tokens = b"".join(replies.chunk(is_chat, head, text, text == "a") for text in ("a", " b", " c"))
    usage = replies.usage_chunk(is_chat, head, replies.Usage(5, 3))
    engine.default = Script(raw=tokens + usage + replies.DONE, raw_piece=11)
    for asked in (None, False, True):
        options = {} if asked is None else {"stream_options": {"include_usage": asked}}
        _, raw = await post(gateway, tenant, path, body(path, True, **options))
        sent = tokens + (usage if asked else b"") + replies.DONE
        assert raw == sent.replace(engine.model.encode(), SERVED.encode())
    assert [seen.body["stream_options"]["include_usage"] for seen in engine.requests] == [True] * 3
    for event in await gateway.events(3):
        assert (event["prompt_uncached_tokens"], event["completion_tokens"]) == (5, 3)


async def test_cached_and_uncached_tokens_are_each_priced_once(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty A5: input is cached plus uncached, each priced once; the ledger's sum is the engine's counter."""
    tenant = await gateway.serve(engine)
    for cached in (0, 1, 2, 5, 99):  # an engine that says more than the prompt has is taken at the prompt
        engine.script(Script(cached_tokens=cached))
        await post(gateway, tenant, CHAT, body(CHAT, stream=cached % 2 == 0))
    events = await gateway.events(5)
    made = [seen.usage for seen in engine.requests]
    for event, usage in zip(events, made, strict=True):
        assert event["prompt_cached_tokens"] == usage.cached_tokens
        assert event["prompt_uncached_tokens"] == usage.prompt_tokens - usage.cached_tokens
        assert event["input_nanousd"] == event["prompt_uncached_tokens"] * 100
        assert event["cached_input_nanousd"] == event["prompt_cached_tokens"] * 10
    total = sum(
        e["prompt_uncached_tokens"] + e["prompt_cached_tokens"] + e["completion_tokens"] for e in events
    )
    assert total == sum(usage.prompt_tokens + usage.completion_tokens for usage in made)


async def test_reading_never_bills(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty A6: a GET bills nothing, whatever is read and however often."""
    tenant = await gateway.serve(engine)
    answer, raw = await post(gateway, tenant, CHAT, body(CHAT))
    before = await gateway.events(1)
    paths = [
        "/v1/models",
        f"/v1/models/{SERVED}",
        f"{CHAT}/{json.loads(raw)['id']}",
        CHAT,
        "/healthz",
        "/readyz",
    ]
    for path in paths * 3:
        await (await gateway.request("GET", path, None, tenant.key)).read()
    usage = f"/usage/completions?start_time={int(before[0]['occurred_at'].timestamp()) - 60}"
    await gateway.admin("GET", usage)
    assert answer.status == 200
    assert await gateway.events(1) == before
    assert len(engine.requests) == 1


async def test_header_counter_and_ledger_agree(gateway: Gateway, engine: FakeEngine, cache_url: str) -> None:
    """Duty A7: after N requests the remaining header, the cache's counter and the ledger agree exactly."""
    tenant = await gateway.serve(engine)
    limit = {"requests_per_day": 50, "tokens_per_min": 100_000_000}
    await _limit(gateway, tenant, **limit)
    refused = 0
    for number in range(1, 13):
        if number % 4 == 0:  # refused before an engine sees it: as if it had never come
            refused += 1
            engine.script(Script(refuse=OVERLOADED))
        path = GENERATING[number % len(GENERATING)]
        answer, _ = await post(gateway, tenant, path, body(path, stream=number % 3 == 0))
        assert answer.status == (503 if number % 4 == 0 else 200)
        await gateway.events(number)
    await _no_open_calls(cache_url, tenant)
    answer, _ = await post(gateway, tenant, CHAT, body(CHAT))
    served = 13 - refused
    assert answer.headers["x-ratelimit-remaining-requests"] == str(50 - served)
    await gateway.events(13)
    counted = await _day_count(cache_url, tenant)
    billed = await gateway.sql(
        "SELECT count(*) AS n, sum(completion_tokens)::int AS t FROM usage_event WHERE amount_nanousd > 0"
    )
    assert counted == served
    assert billed == [{"n": served, "t": 5 * served}]


@pytest.mark.parametrize(("path", "seen"), [(CHAT, 1), (COMPLETIONS, 4)])
async def test_who_leaves_after_k_tokens_pays_for_k(
    gateway: Gateway, engine: FakeEngine, path: str, seen: int
) -> None:
    """Duty A8: a caller that leaves after k tokens pays the prompt and k, and no step more than was in flight."""
    tenant = await gateway.serve(engine)
    engine.script(Script(hang_after=seen))
    answer = await gateway.request("POST", path, body(path, True), tenant.key)
    raw = b""
    while raw.count(b"\n\n") < seen:
        raw += await answer.content.readany()
    answer.close()
    [event] = await gateway.events(1)
    assert (event["status"], event["prompt_uncached_tokens"]) == ("cancelled", 5)
    assert event["completion_tokens"] == seen == engine.requests[0].usage.completion_tokens
    assert event["amount_nanousd"] == 500 + seen * 1000


# -- B: budgets -------------------------------------------------------------------------------------------


async def test_over_budget_is_429_on_every_route(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty B13: over a hard budget, whoever's it is, every endpoint that generates refuses, streamed or not."""
    tenant = await gateway.serve(engine)
    for whose in ({"project_id": tenant.id}, {"project_id": tenant.id, "key_id": tenant.key_id}, {}):
        budget = {"period": "monthly", "limit_nanousd": 1, **whose}
        made = await gateway.admin("POST", "/budgets", budget)
        for path, stream in WAYS:
            for headers in ({}, {"openai-project": "another"}, {"idempotency-key": "k"}):
                asked = body(path, stream, user="nobody-yet")
                answer = await gateway.request("POST", path, asked, tenant.key, headers=headers)
                assert answer.status == 429, await answer.text()
                assert (await answer.json())["error"]["type"] == "insufficient_quota"
                assert answer.headers["x-should-retry"] == "false"
        await gateway.admin("DELETE", f"/budgets/{made['id']}")
    assert engine.requests == []
    assert await gateway.events(0) == []


# -- C: durability ----------------------------------------------------------------------------------------


async def test_sigterm_under_load_settles_every_reply(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty C18: SIGTERM under load: every reply that was delivered is settled, none twice, and nothing is held."""
    tenant = await gateway.serve(engine)
    gate = asyncio.Event()
    engine.default = Script(token_delay_s=0.03, gate=gate)
    asking = [
        asyncio.create_task(post(gateway, tenant, path, body(path, stream)))
        for path in GENERATING
        for stream in (False, True)
        for _ in range(5)
    ]
    await engine.wait_for(lambda: engine.running == len(asking))
    asyncio.get_running_loop().call_later(0.2, gate.set)
    await gateway.stop()
    delivered = [
        answer.headers["x-request-id"]
        for answer, raw in await asyncio.gather(*asking)
        if answer.status == 200 and raw
    ]
    events = await gateway.events(len(delivered))
    assert sorted(event["request_id"] for event in events) == sorted(delivered)
    assert [event["completion_tokens"] for event in events] == [5] * len(asking)


async def _limit(gateway: Gateway, tenant: Tenant, **limits: int) -> None:
    await gateway.sql("DELETE FROM rate_limit")
    names = ", ".join(limits)
    values = ", ".join(str(value) for value in limits.values())
    await gateway.sql(
        f"INSERT INTO rate_limit (id, tenant_id, {names}) VALUES ('limit-1', '{tenant.id}', {values})"
    )
    await gateway.refresh()


async def _no_open_calls(cache_url: str, tenant: Tenant) -> None:
    key = open_calls_key(TenantId(tenant.id))
    with redis.Redis.from_url(cache_url) as client:
        async with asyncio.timeout(60):
            while client.zcard(key):  # noqa: ASYNC110  (the cache has no event)
                await asyncio.sleep(0.01)


async def _day_count(cache_url: str, tenant: Tenant) -> int:
    await _no_open_calls(cache_url, tenant)
    with redis.Redis.from_url(cache_url, decode_responses=True) as client:
        (key,) = [
            key
            for key in client.scan_iter("tw:{*")
            if client.type(key) == "hash" and client.hexists(key, "count")
        ]
        return int(client.hget(key, "count"))
