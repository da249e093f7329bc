"""A stream whose replica dies goes on at another one: one answer, one usage, one bill.

After every test the fixture checks the books: one event for each admitted request, nothing held.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.fakes.script import OVERLOADED, Script
from tests.gateway.asking import STREAM, WORDS, ask
from tests.harness import Gateway, Tenant

USAGE = {**STREAM, "stream_options": {"include_usage": True}}


@pytest.fixture
async def others() -> AsyncIterator[list[FakeEngine]]:
    async with FakeEngine() as one, FakeEngine() as two:
        yield [one, two]


async def serve(gateway: Gateway, engine: FakeEngine, *others: FakeEngine) -> Tenant:
    """`engine` is asked first: the others report more load."""
    tenant = await gateway.serve(engine, *others)
    for place, other in enumerate(others):
        other.reported_waiting = 5 + 5 * place
    await gateway.poll()
    return tenant


def texts(raw: bytes) -> tuple[str, set[tuple[str, int]], dict[str, Any] | None]:
    """The text, what identifies the answer, its usage."""
    assert raw.endswith(b"data: [DONE]\n\n"), raw
    assert b": ids" not in raw
    events = [json.loads(event[6:]) for event in raw.split(b"\n\n")[:-2]]
    text = "".join(e["choices"][0]["delta"].get("content") or "" for e in events if e["choices"])
    return text, {(e["id"], e["created"]) for e in events}, events[-1].get("usage")


@pytest.mark.parametrize("death", [Script(die_after=2), Script(fail_after=2)], ids=["death", "error event"])
async def test_another_replica_goes_on(
    gateway: Gateway, engine: FakeEngine, others: list[FakeEngine], death: Script
) -> None:
    """The caller cannot tell; what was computed again nobody pays."""
    tenant = await serve(gateway, engine, others[0])
    engine.script(death)
    status, raw = await ask(gateway, tenant, USAGE)
    assert status == 200
    text, identities, usage = texts(raw)
    assert (text, len(identities)) == (WORDS, 1)
    assert usage is not None
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (5, 5)
    [event] = await gateway.events(1)
    assert (event["status"], event["prompt_uncached_tokens"], event["completion_tokens"]) == ("ok", 5, 5)
    first, second = await gateway.attempts()
    assert (first["billed_prompt_tokens"], first["billed_completion_tokens"]) == (5, 2)
    assert (second["billed_prompt_tokens"], second["billed_completion_tokens"]) == (0, 3)
    assert (second["prompt_tokens"], second["unbilled_reason"], second["resumed_from"]) == (
        7,
        "resume_prefill",
        0,
    )
    [seen] = others[0].requests
    assert (seen.replayed, seen.attempt, seen.path) == (2, 1, "/v1/chat/completions")
    assert seen.request_id == engine.requests[0].request_id
    assert seen.body == engine.requests[0].body
    assert gateway.retries_taken(tenant) == int(death.fail_after is not None)


async def test_it_goes_on_as_often_as_it_is_tried(
    gateway: Gateway, engine: FakeEngine, others: list[FakeEngine]
) -> None:
    tenant = await serve(gateway, engine, *others)
    engine.script(Script(die_after=1))
    others[0].script(Script(die_after=4))
    _, raw = await ask(gateway, tenant, USAGE)
    assert texts(raw)[0] == WORDS
    [event] = await gateway.events(1)
    assert (event["amount_nanousd"], event["status"]) == (5500, "ok")
    rows = await gateway.attempts()
    assert [(row["billed_prompt_tokens"], row["billed_completion_tokens"]) for row in rows] == [
        (5, 1),
        (0, 3),
        (0, 1),
    ]


async def test_a_death_at_the_very_end_brings_only_the_end(
    gateway: Gateway, engine: FakeEngine, others: list[FakeEngine]
) -> None:
    tenant = await serve(gateway, engine, others[0])
    engine.script(Script(die_after=5))
    _, raw = await ask(gateway, tenant, USAGE)
    assert texts(raw)[0] == WORDS
    [event] = await gateway.events(1)
    assert event["amount_nanousd"] == 5500


async def test_without_another_replica_it_is_a_partial_answer(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await serve(gateway, engine)
    engine.script(Script(die_after=2))
    _, raw = await ask(gateway, tenant, USAGE)
    assert b'"error"' in raw
    assert b"[DONE]" not in raw
    assert not engine.requests[0].emits_ids, "nobody could go on, so nobody asks for ids"
    [event] = await gateway.events(1)
    assert (event["status"], event["completion_tokens"]) == ("partial", 2)


@pytest.mark.parametrize("refusal", ["mismatch", "overloaded", "death"])
async def test_if_nobody_can_go_on_what_came_is_paid(
    gateway: Gateway, engine: FakeEngine, others: list[FakeEngine], refusal: str
) -> None:
    tenant = await serve(gateway, engine, others[0])
    engine.script(Script(die_after=2))
    if refusal == "mismatch":
        others[0].model_hash = "hash-2"
    others[0].default = {
        "mismatch": Script(),
        "overloaded": Script(refuse=OVERLOADED),
        "death": Script(cut_before_answer=True),
    }[refusal]
    _, raw = await ask(gateway, tenant, STREAM)
    assert b'"error"' in raw
    assert b"[DONE]" not in raw
    [event] = await gateway.events(1)
    assert (event["status"], event["prompt_uncached_tokens"], event["completion_tokens"]) == ("partial", 5, 2)
    if refusal == "mismatch":
        [replica] = [one for one in gateway.app.replicas.known if one.row.url == others[0].url]
        assert not replica.breaker.is_open


async def test_a_replica_of_other_weights_is_passed_over(
    gateway: Gateway, engine: FakeEngine, others: list[FakeEngine]
) -> None:
    tenant = await serve(gateway, engine, *others)
    engine.script(Script(die_after=2))
    others[0].model_hash = "hash-2"
    _, raw = await ask(gateway, tenant, STREAM)
    assert texts(raw)[0] == WORDS
    assert others[1].requests[0].replayed == 2


async def test_a_caller_that_leaves_after_it_pays_for_what_came(
    gateway: Gateway, engine: FakeEngine, others: list[FakeEngine]
) -> None:
    tenant = await serve(gateway, engine, others[0])
    engine.script(Script(die_after=2))
    others[0].default = Script(hang_after=4)
    answer = await gateway.request("POST", "/v1/chat/completions", STREAM, tenant.key)
    await others[0].wait_for(lambda: any(seen.usage.completion_tokens == 2 for seen in others[0].requests))
    answer.close()
    await others[0].wait_for(lambda: others[0].running == 0)
    [event] = await gateway.events(1)
    assert (event["status"], event["prompt_uncached_tokens"], event["completion_tokens"]) == (
        "cancelled",
        5,
        4,
    )


async def test_an_answer_of_many_choices_is_not_continued(
    gateway: Gateway, engine: FakeEngine, others: list[FakeEngine]
) -> None:
    tenant = await serve(gateway, engine, others[0])
    engine.script(Script(die_after=2))
    _, raw = await ask(gateway, tenant, {**STREAM, "n": 2})
    assert b'"error"' in raw
    assert others[0].requests == []
    assert (await gateway.events(1))[0]["status"] == "partial"


class TestHanging:
    @pytest.fixture
    def gateway_changes(self) -> dict[str, Any]:
        return {"upstream": {"between_tokens_timeout_s": 2.0}}

    async def test_a_replica_that_hangs_is_left_and_what_it_makes_later_is_nobodys(
        self, gateway: Gateway, engine: FakeEngine, others: list[FakeEngine]
    ) -> None:
        """Duty G37: no stream waits for longer than its timeout for a replica that hangs."""
        tenant = await serve(gateway, engine, others[0])
        engine.script(Script(hang_after=2))
        _, raw = await ask(gateway, tenant, STREAM)
        assert texts(raw)[0] == WORDS
        await engine.wait_for(lambda: engine.running == 0)
        assert engine.aborts == 1
        [event] = await gateway.events(1)
        assert event["amount_nanousd"] == 5500


async def test_many_streams_of_one_replica_go_on_at_once(
    gateway: Gateway, engine: FakeEngine, others: list[FakeEngine]
) -> None:
    """Whoever had 40 streams when it died leaves more than a retry budget; each of them goes on all the same."""
    tenant = await serve(gateway, engine, others[0])
    others[0].reported_waiting = 500
    await gateway.poll()
    engine.default = Script(die_after=2, token_delay_s=0.05)
    answers = await asyncio.gather(*(ask(gateway, tenant, STREAM) for _ in range(40)))
    assert {texts(raw)[0] for _, raw in answers} == {WORDS}
    assert len(others[0].requests) == 40
    events = await gateway.events(40)
    assert {(event["status"], event["amount_nanousd"]) for event in events} == {("ok", 5500)}
