"""An unmodified OpenAI client against the whole: answers, streams, typed errors, and the ledger's view of each."""

import asyncio
from decimal import Decimal
from typing import Any

import openai
import pytest

from gateway.local.up import OFFER, SERVED_MODEL
from tests.e2e.conftest import Stack, caller, until
from tests.e2e.roll.run import Rolls, wrong

PROMPT = "the quick brown fox"
CHAT: Any = [{"role": "user", "content": PROMPT}]
LONG: Any = {"max_tokens": 200, "temperature": 1.0, "extra_body": {"ignore_eos": True}}


async def _event(stack: Stack, request_id: str) -> dict[str, Any]:
    """The request's one usage event, when it is settled."""
    found: list[Any] = []

    async def settled() -> bool:
        found[:] = await stack.rows("SELECT * FROM usage_event WHERE request_id = $1", request_id)
        return bool(found)

    await until(settled)
    assert len(found) == 1
    return dict(found[0])


async def _check_ledger(stack: Stack, request_id: str, usage: Any, status: str = "ok") -> None:
    event = await _event(stack, request_id)
    cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else 0
    assert event["status"] == status
    assert event["prompt_cached_tokens"] == cached
    assert event["prompt_uncached_tokens"] + cached == usage.prompt_tokens
    assert event["completion_tokens"] == usage.completion_tokens
    price = OFFER.nanousd_per_token
    due = (usage.prompt_tokens - cached) * price["input"] + cached * price["cached_input"]
    assert Decimal(event["amount_nanousd"]) == due + usage.completion_tokens * price["output"]
    (attempt,) = await stack.rows("SELECT * FROM attempt WHERE request_id = $1", request_id)
    assert attempt["billed_completion_tokens"] == usage.completion_tokens
    assert await stack.rows("SELECT 1 FROM hold WHERE request_id = $1", request_id) == []


async def test_models_are_the_callers_names(stack: Stack) -> None:
    async with caller(stack) as client:
        assert [model.id async for model in client.models.list()] == [SERVED_MODEL]
        assert (await client.models.retrieve(SERVED_MODEL)).id == SERVED_MODEL


async def test_a_completion_is_charged_to_the_token(stack: Stack) -> None:
    async with caller(stack) as client:
        answer = await client.completions.create(
            model=SERVED_MODEL, prompt=PROMPT, max_tokens=12, temperature=0
        )
    assert answer.model == SERVED_MODEL
    assert answer.usage is not None
    assert 0 < answer.usage.completion_tokens <= 12
    assert answer._request_id is not None
    await _check_ledger(stack, answer._request_id, answer.usage)


async def test_a_chat_is_charged_to_the_token(stack: Stack) -> None:
    async with caller(stack) as client:
        answer = await client.chat.completions.create(model=SERVED_MODEL, messages=CHAT, max_tokens=12)
    assert answer.choices[0].message.role == "assistant"
    assert answer._request_id is not None
    await _check_ledger(stack, answer._request_id, answer.usage)


async def test_embeddings_are_charged_to_the_prompts_tokens(stack: Stack) -> None:
    """The package asks for base64 by itself."""
    async with caller(stack) as client:
        answer = await client.embeddings.create(model=SERVED_MODEL, input=[PROMPT, f"{PROMPT} jumps"])
    near, far = (entry.embedding for entry in answer.data)
    assert len(near) == len(far) > 1
    assert near != far
    assert sum(number * number for number in near) == pytest.approx(1, abs=1e-4)
    assert answer._request_id is not None
    event = await _event(stack, answer._request_id)
    assert event["status"] == "ok"
    assert event["prompt_uncached_tokens"] + event["prompt_cached_tokens"] == answer.usage.prompt_tokens
    assert event["completion_tokens"] == 0
    assert event["amount_nanousd"] > 0


async def test_a_stream_says_the_same_as_the_answer_and_the_ledger(stack: Stack) -> None:
    async with caller(stack) as client:
        given: Any = {"model": SERVED_MODEL, "messages": CHAT, "max_tokens": 24, "temperature": 0}
        whole = await client.chat.completions.create(**given)
        stream = await client.chat.completions.create(
            **given, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    usage = chunks[-1].usage
    assert usage is not None
    assert all(chunk.usage is None for chunk in chunks[:-1])
    await _check_ledger(stack, stream.response.headers["x-request-id"], usage)


async def test_usage_is_hidden_from_who_did_not_ask_and_charged_all_the_same(stack: Stack) -> None:
    async with caller(stack) as client:
        stream = await client.completions.create(model=SERVED_MODEL, prompt=PROMPT, max_tokens=8, stream=True)
        chunks = [chunk async for chunk in stream]
    assert all(chunk.choices and chunk.usage is None for chunk in chunks)
    event = await _event(stack, stream.response.headers["x-request-id"])
    assert event["is_stream"]
    assert event["completion_tokens"] > 0


async def test_errors_are_the_sdks_own_types(stack: Stack) -> None:
    async with caller(stack, api_key="tw-aaaaaaaa-" + "x" * 43) as stranger:
        with pytest.raises(openai.AuthenticationError) as unknown:
            await stranger.models.list()
    assert unknown.value.code == "invalid_api_key"
    async with caller(stack) as client:
        with pytest.raises(openai.NotFoundError) as missing:
            await client.completions.create(model="somebody-elses", prompt=PROMPT)
        assert missing.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError) as bad:
            await client.completions.create(model=SERVED_MODEL, prompt=PROMPT, temperature=9)
        assert bad.value.param == "temperature"
        with pytest.raises(openai.BadRequestError) as long:
            await client.completions.create(model=SERVED_MODEL, prompt=PROMPT * 5000, max_tokens=4)
        assert long.value.code == "context_length_exceeded"
    ids = [error.value.request_id for error in (missing, bad, long)]
    assert (
        await stack.rows("SELECT 1 FROM usage_event WHERE request_id = ANY($1) AND amount_nanousd > 0", ids)
        == []
    )


async def test_a_limit_is_a_rate_limit_error(stack: Stack) -> None:
    refusals: list[openai.RateLimitError] = []

    async def refused() -> bool:
        try:
            async with caller(stack) as client:
                await client.completions.create(model=SERVED_MODEL, prompt=PROMPT, max_tokens=1)
        except openai.RateLimitError as error:
            refusals.append(error)
            return True
        return False

    async def admitted() -> bool:
        return not await refused()

    await stack.rows("UPDATE rate_limit SET requests_per_min = 1, requests_burst = 1")
    try:
        await until(refused)
    finally:
        await stack.rows("UPDATE rate_limit SET requests_per_min = NULL, requests_burst = NULL")
    assert refusals[0].code == "rate_limit_exceeded"
    assert "retry-after" in refusals[0].response.headers
    await until(admitted)


async def test_a_caller_that_hangs_up_pays_for_what_was_made(stack: Stack) -> None:
    async with caller(stack) as client:
        stream = await client.completions.create(model=SERVED_MODEL, prompt=PROMPT, stream=True, **LONG)
        seen = 0
        async for _ in stream:
            seen += 1
            if seen == 3:
                break
        await stream.close()
    event = await _event(stack, stream.response.headers["x-request-id"])
    assert event["status"] == "cancelled"
    assert 3 <= event["completion_tokens"] < 200

    async def idle() -> bool:
        return int((await stack.engine_status())["running"]) == 0

    await until(idle)


async def test_many_at_once_are_each_charged_once(stack: Stack) -> None:
    async with caller(stack) as client:
        answers = await asyncio.gather(
            *(
                client.completions.create(
                    model=SERVED_MODEL, prompt=f"{PROMPT} {number}", max_tokens=4 + number
                )
                for number in range(12)
            )
        )
    for answer in answers:
        assert answer._request_id is not None
        await _check_ledger(stack, answer._request_id, answer.usage)


async def test_the_engines_own_counters_are_the_ledgers_sums(stack: Stack) -> None:
    """Duty A10: whatever the tests above have asked for, once it is settled."""

    async def settled() -> bool:
        holds = await stack.rows("SELECT 1 FROM hold")
        return not holds and not (await stack.engine_status())["request_ids"]

    async with caller(stack) as client:
        await client.completions.create(model=SERVED_MODEL, prompt=PROMPT, max_tokens=3)
    await until(settled)
    counted = await stack.engine_counters()
    (ledger,) = await stack.rows(
        """SELECT coalesce(sum(prompt_tokens) FILTER (WHERE completion_tokens > 0 OR request_id IN (
                SELECT request_id FROM usage_event WHERE endpoint = 'embeddings')), 0)::bigint AS prompt,
            coalesce(sum(completion_tokens), 0)::bigint AS completion FROM attempt"""
    )
    assert ledger["completion"] > 0
    assert counted["vllm:generation_tokens_total"] == ledger["completion"]
    assert counted["vllm:prompt_tokens_total"] == ledger["prompt"]


async def test_a_roll_under_load_fails_and_cuts_nobody(stack: Stack) -> None:
    """Duty H42: the supervisor replaces the engine under constant load: each stream gets its tokens, each is settled once,
    and what the old engine journalled is with the ledger. Last of all: the engine has another address afterwards.
    `make roll` is the long form."""
    rolls = Rolls(stack, callers=6)
    await rolls.grow(1)
    (before,) = rolls.pool["replicas"]
    streams = await rolls.roll()
    (after,) = rolls.pool["replicas"]
    assert (before["id"], before["url"]) != (after["id"], after["url"])
    assert len(streams) >= 6
    assert not wrong(streams)
    assert not await rolls.unsettled()
