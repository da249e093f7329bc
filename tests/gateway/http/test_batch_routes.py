"""`/v1/batches` through the strict `openai` client, from the upload to the results and the bill."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import openai
import pytest
from openai.types import Batch

from gateway.batches.parts import Terms
from tests.fakes.engine import FakeEngine
from tests.fakes.script import BROKEN, OVERLOADED, TOO_LONG, Script
from tests.harness import SERVED, Gateway, Tenant

CHAT = "/v1/chat/completions"
ENDED = ("failed", "completed", "expired", "cancelled")


def strict(gateway: Gateway, tenant: Tenant) -> openai.AsyncOpenAI:
    """It asks often and for long, so a machine that is busy may turn it away once."""
    return gateway.client(tenant, _strict_response_validation=True, max_retries=4)


def chat_line(custom_id: str, text: str = "one two three", **body: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {
        "custom_id": custom_id,
        "method": "POST",
        "url": CHAT,
        "body": {"model": SERVED, "messages": messages} | body,
    }


async def begin(
    client: openai.AsyncOpenAI, lines: Sequence[Any], endpoint: Any = CHAT, **options: Any
) -> Batch:
    content = b"".join(
        line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines
    )
    file = await client.files.create(file=("lines.jsonl", content), purpose="batch")
    return await client.batches.create(
        input_file_id=file.id, endpoint=endpoint, completion_window="24h", **options
    )


async def wait(
    client: openai.AsyncOpenAI, batch: Batch, until: Callable[[Batch], bool] = lambda b: b.status in ENDED
) -> Batch:
    async with asyncio.timeout(60):
        while not until(batch := await client.batches.retrieve(batch.id)):  # noqa: ASYNC110  (far away)
            await asyncio.sleep(0.1)
    return batch


def short_slices(gateway: Gateway) -> None:
    """So that what a slice does not look at is seen soon."""
    runner = gateway.app.batches
    runner._p = replace(runner._p, terms=Terms(slice_s=0.5, slice_lines=40))


async def content(client: openai.AsyncOpenAI, file_id: str | None) -> list[dict[str, Any]]:
    if file_id is None:
        return []
    return [json.loads(line) for line in (await client.files.content(file_id)).text.splitlines()]


async def test_a_batch_from_its_file_to_its_results(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    client = strict(gateway, tenant)
    made = await begin(
        client, [chat_line(f"id-{n}", "one " * (n + 1)) for n in range(40)], metadata={"a": "b"}
    )
    assert (made.object, made.endpoint, made.completion_window, made.metadata) == (
        "batch",
        CHAT,
        "24h",
        {"a": "b"},
    )
    assert made.expires_at == made.created_at + 86_400
    batch = await wait(client, made)
    assert (batch.status, batch.error_file_id, batch.errors, batch.model) == ("completed", None, None, SERVED)
    counts = batch.request_counts
    assert counts is not None
    assert (counts.total, counts.completed, counts.failed) == (40, 40, 0)
    assert None not in (batch.in_progress_at, batch.finalizing_at, batch.completed_at)
    results = await content(client, batch.output_file_id)
    assert [result["custom_id"] for result in results] == [f"id-{n}" for n in range(40)]
    assert len({result["id"] for result in results}) == 40
    for number, result in enumerate(results):
        body = result["response"]["body"]
        assert (result["response"]["status_code"], result["error"]) == (200, None)
        assert body["choices"][0]["message"]["content"] == ("one " * (number + 1)).strip()
        assert body["model"] == SERVED
    events = await gateway.events(40)
    assert {event["request_id"] for event in events} == {r["response"]["request_id"] for r in results}
    assert {event["request_class"] for event in events} == {"batch"}
    tokens = sum(range(1, 41))
    assert sum(event["amount_nanousd"] for event in events) == tokens * 50 + tokens * 500  # half of the price
    usage = batch.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (tokens, tokens, 2 * tokens)
    assert {seen.headers["x-request-class"] for seen in engine.requests} == {"batch"}
    file = await client.files.retrieve(batch.output_file_id or "")
    assert (file.purpose, file.filename) == ("batch_output", f"{batch.id}_output.jsonl")


async def test_every_endpoint(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    client = strict(gateway, tenant)
    for endpoint, body in (
        ("/v1/completions", {"prompt": "one two"}),
        ("/v1/embeddings", {"input": "one two", "encoding_format": "float"}),
    ):
        line = {"custom_id": "a", "method": "POST", "url": endpoint, "body": {"model": SERVED, **body}}
        batch = await wait(client, await begin(client, [line], endpoint))
        [result] = await content(client, batch.output_file_id)
        assert result["response"]["body"]["usage"]["prompt_tokens"] == 2
        assert batch.usage is not None
        assert batch.usage.input_tokens == 2
    assert {event["endpoint"] for event in await gateway.events(2)} == {"completions", "embeddings"}


async def test_what_a_line_is_refused_for_is_in_the_error_file(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    client = strict(gateway, tenant)
    lines = [
        chat_line("good"),
        chat_line("nothing", model="nobodys"),
        chat_line("streamed", stream=True),
        chat_line("empty", messages=[]),
        chat_line("long", "word " * 9000),
    ]
    batch = await wait(
        client, await begin(client, lines, output_expires_after={"anchor": "created_at", "seconds": 3600})
    )
    assert batch.status == "completed"
    assert batch.request_counts is not None
    assert (batch.request_counts.completed, batch.request_counts.failed) == (1, 4)
    found = {
        result["custom_id"]: (result["response"]["status_code"], result["response"]["body"]["error"]["code"])
        for result in await content(client, batch.error_file_id)
    }
    assert found == {
        "nothing": (404, "model_not_found"),
        "streamed": (400, "unsupported_parameter"),
        "empty": (400, "invalid_value"),
        "long": (400, "context_length_exceeded"),
    }
    assert [result["custom_id"] for result in await content(client, batch.output_file_id)] == ["good"]
    for file_id in (batch.output_file_id, batch.error_file_id):
        file = await client.files.retrieve(file_id or "")
        assert file.expires_at is not None
        assert abs(file.expires_at - file.created_at - 3600) <= 1
    assert sum(event["amount_nanousd"] > 0 for event in await gateway.events(2)) == 1


async def test_a_file_that_makes_no_sense_fails_as_a_whole(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    client = strict(gateway, tenant)
    wrong: list[Any] = [
        chat_line("a"),
        b"not json\n",
        b"[]\n",
        chat_line("a"),
        {**chat_line("b"), "method": "GET"},
        {**chat_line("c"), "url": "/v1/embeddings"},
        {**chat_line("d"), "body": "x"},
        {"custom_id": "e", "method": "POST", "url": CHAT},
        {**chat_line("f"), "custom_id": 7},
        b"\n",
        chat_line("g"),
    ]
    batch = await wait(client, await begin(client, wrong))
    assert (batch.status, batch.output_file_id, batch.error_file_id) == ("failed", None, None)
    assert batch.failed_at is not None
    assert batch.errors is not None
    assert [(error.line, error.code) for error in batch.errors.data or []] == [
        (2, "invalid_json_line"),
        (3, "invalid_json_line"),
        (4, "duplicate_custom_id"),
        (5, "invalid_method"),
        (6, "invalid_url"),
        (7, "invalid_body"),
        (8, "missing_required_parameter"),
        (9, "invalid_custom_id"),
        (10, "invalid_json_line"),
    ]
    assert engine.requests == []


async def test_engines_that_break_are_asked_again_and_no_more_than_that(
    gateway: Gateway, engine: FakeEngine
) -> None:
    """Duty A2: a line is one paid request, however often the engine broke over it or was full."""
    tenant = await gateway.serve(engine)
    client = strict(gateway, tenant)
    engine.script(*[Script(refuse=BROKEN)] * 3, Script(refuse=OVERLOADED), Script(), Script(refuse=TOO_LONG))
    batch = await wait(client, await begin(client, [chat_line("a")]))
    assert batch.status == "completed"
    [result] = await content(client, batch.output_file_id)
    events = await gateway.events()
    paid = [event for event in events if event["amount_nanousd"]]
    assert [event["request_id"] for event in paid] == [result["response"]["request_id"]]
    assert len({event["request_id"] for event in events}) == len(events) == 3


async def test_another_tenants_batch_is_as_unknown_as_none(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty F34: a batch's id, and a file's as its input, mean nothing to another tenant."""
    owner = await gateway.serve(engine)
    other = await gateway.tenant("other")
    client = strict(gateway, owner)
    made = await wait(client, await begin(client, [chat_line("a")]))
    answers = set()
    for batch_id in (made.id, "batch_" + "0" * 32):
        for method, path in (("GET", ""), ("POST", "/cancel")):
            answer = await gateway.request(method, f"/v1/batches/{batch_id}{path}", None, other.key)
            answers.add((answer.status, (await answer.text()).replace(batch_id, "ID")))
    assert len(answers) == 1
    assert answers.pop()[0] == 404
    inputs = set()
    for file_id in (made.input_file_id, made.output_file_id, "file-" + "0" * 32):
        body = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"}
        answer = await gateway.request("POST", "/v1/batches", body, other.key)
        inputs.add((answer.status, (await answer.text()).replace(str(file_id), "ID")))
    assert len(inputs) == 1
    assert inputs.pop()[0] == 400
    assert (await strict(gateway, other).batches.list()).data == []
    assert (await strict(gateway, other).batches.list(after=made.id)).data == []


async def test_lists_have_pages(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    client = strict(gateway, tenant)
    made = [(await begin(client, [chat_line("a")])).id for _ in range(5)]
    page = await client.batches.list(limit=2)
    assert ([batch.id for batch in page.data], page.has_more) == (made[:2:-1], True)
    assert [batch.id async for batch in client.batches.list(limit=2)] == made[::-1]
    with pytest.raises(openai.BadRequestError):
        await client.batches.list(limit=101)
    for batch_id in made:
        await wait(client, await client.batches.retrieve(batch_id))
    await gateway.events(5)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"endpoint": "/v1/moderations"}, "endpoint"),
    ({"completion_window": "1h"}, "completion_window"),
    ({"input_file_id": None}, "input_file_id"),
    ({"input_file_id": 7}, "input_file_id"),
    ({"metadata": {"a": 1}}, "metadata"),
    ({"metadata": {str(n): "x" for n in range(17)}}, "metadata"),
    ({"metadata": {"a": "x" * 513}}, "metadata"),
    ({"metadata": []}, "metadata"),
    ({"output_expires_after": {"anchor": "created_at", "seconds": 1}}, "output_expires_after.seconds"),
    ({"output_expires_after": 5}, "output_expires_after"),
    ({"colour": "red"}, "colour"),
]


async def test_what_makes_no_sense_is_refused(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    file = await strict(gateway, tenant).files.create(file=("f", b"{}\n"), purpose="batch")
    for fields, param in BAD:
        body = {"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h", **fields}
        answer = await gateway.request("POST", "/v1/batches", body, tenant.key)
        assert (answer.status, (await answer.json())["error"]["param"]) == (400, param)
    assert (await strict(gateway, tenant).batches.list()).data == []


async def test_cancelled_keeps_what_was_answered(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    client = strict(gateway, tenant)
    engine.default = Script(token_delay_s=0.2)
    made = await begin(client, [chat_line(f"id-{n}") for n in range(400)])
    await engine.wait_for(lambda: engine.count("finished") >= 5)
    asked = await client.batches.cancel(made.id)
    assert (asked.status, asked.cancelling_at is not None) == ("cancelling", True)
    batch = await wait(client, made)
    assert (batch.status, batch.cancelled_at is not None) == ("cancelled", True)
    results = await content(client, batch.output_file_id)
    assert batch.request_counts is not None
    assert 5 <= len(results) == batch.request_counts.completed < 400
    assert batch.request_counts.failed == 0
    events = await gateway.events(len(results))
    assert {event["status"] for event in events} == {"ok"}
    assert (await client.batches.cancel(made.id)).status == "cancelled"


async def test_what_has_ended_cannot_be_cancelled(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    client = strict(gateway, tenant)
    batch = await wait(client, await begin(client, [chat_line("a")]))
    with pytest.raises(openai.ConflictError):
        await client.batches.cancel(batch.id)


async def test_what_is_not_answered_in_time_says_so(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    client = strict(gateway, tenant)
    short_slices(gateway)
    engine.default = Script(token_delay_s=0.2)
    made = await begin(client, [chat_line(f"id-{n}") for n in range(300)])
    await wait(client, made, lambda b: b.request_counts is not None and b.request_counts.completed > 0)
    await gateway.sql("UPDATE batch SET expires_at = now()")
    batch = await wait(client, made)
    assert (batch.status, batch.expired_at is not None) == ("expired", True)
    good, bad = await content(client, batch.output_file_id), await content(client, batch.error_file_id)
    assert len(good) + len(bad) == 300
    assert {result["custom_id"] for result in good + bad} == {f"id-{n}" for n in range(300)}
    assert {(result["response"], result["error"]["code"]) for result in bad} == {(None, "batch_expired")}


async def test_a_batch_waits_for_its_limits_and_leaves_the_others_alone(
    gateway: Gateway, engine: FakeEngine
) -> None:
    """Its class has buckets of its own: who waits for an answer is not limited by a batch, nor the other way round."""
    tenant = await gateway.serve(engine)
    client = strict(gateway, tenant)
    await gateway.sql(
        "UPDATE rate_limit SET requests_per_min = 600, requests_burst = 5 WHERE tenant_id = $1", tenant.id
    )
    await gateway.refresh()
    made = await begin(client, [chat_line(f"id-{n}") for n in range(20)])
    await engine.wait_for(lambda: len(engine.requests) >= 6)
    await client.chat.completions.create(model=SERVED, messages=[{"role": "user", "content": "hello"}])
    batch = await wait(client, made)
    assert batch.request_counts is not None
    assert (batch.request_counts.completed, batch.request_counts.failed) == (20, 0)
    await gateway.events(21)


async def test_a_budget_holds_for_lines_too(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty B13: a batch is no way around a hard budget; holds that are only in the way are waited for."""
    tenant = await gateway.serve(engine)
    client = strict(gateway, tenant)
    lines = [chat_line(f"id-{n}", max_tokens=3) for n in range(12)]
    spent = 3 * 50 + 3 * 500
    bound = 20_000  # one line holds about 400 bytes at 50 and 3 tokens at 500
    await gateway.admin(
        "POST", "/budgets", {"period": "monthly", "limit_nanousd": bound + 9 * spent, "project_id": tenant.id}
    )
    batch = await wait(client, await begin(client, lines))
    assert batch.request_counts is not None
    assert batch.request_counts.total == 12
    assert 3 <= batch.request_counts.completed < 12
    for result in await content(client, batch.error_file_id):
        assert result["response"]["status_code"] == 429
        assert result["response"]["body"]["error"]["code"] == "project_spend_limit_exceeded"
    events = await gateway.events(batch.request_counts.completed)
    assert sum(event["amount_nanousd"] for event in events) <= bound + 9 * spent


async def test_a_revoked_key_ends_its_batches(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    other = await gateway.admin("POST", f"/projects/{tenant.id}/api_keys", {"name": "other"})
    client = gateway.client(other["value"], _strict_response_validation=True)
    engine.default = Script(token_delay_s=0.2)
    made = await begin(client, [chat_line(f"id-{n}") for n in range(2000)])
    await engine.wait_for(lambda: engine.count("finished") >= 5)
    await gateway.sql("UPDATE api_key SET revoked_at = now() WHERE id = $1", other["id"])
    batch = await wait(strict(gateway, tenant), made)
    assert batch.status == "cancelled"
    assert batch.errors is not None
    assert [error.code for error in batch.errors.data or []] == ["invalid_api_key"]


async def test_reading_batches_and_files_never_bills(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty A6: looking at a batch and its results, however often, is no request that anybody pays for."""
    tenant = await gateway.serve(engine)
    client = strict(gateway, tenant)
    batch = await wait(client, await begin(client, [chat_line("a")]))
    before = await gateway.events(1)
    for _ in range(3):
        await client.batches.retrieve(batch.id)
        await content(client, batch.output_file_id)
        await client.files.retrieve(batch.input_file_id)
        await client.batches.list()
    assert await gateway.events(1) == before
    assert len(engine.requests) == 1
