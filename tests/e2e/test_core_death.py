"""kill -9 of the engine's core under load: one error each, service again, and the right people pay."""

import asyncio
import os
import signal
from dataclasses import dataclass
from typing import Any

import openai

from gateway.local.up import SERVED_MODEL
from tests.e2e.conftest import Stack, caller, until

STREAMS = 6
LONG: Any = {"max_tokens": 900, "temperature": 1.0, "extra_body": {"ignore_eos": True}}


@dataclass
class Outcome:
    request_id: str = ""
    chunks: int = 0
    ends: int = 0
    """How often it ended: by an error or by the end of its stream."""
    error: openai.APIError | None = None


async def _stream(client: openai.AsyncOpenAI, number: int, outcome: Outcome) -> None:
    try:
        stream = await client.completions.create(
            model=SERVED_MODEL, prompt=f"number {number}", stream=True, **LONG
        )
        outcome.request_id = stream.response.headers["x-request-id"]
        async for chunk in stream:
            outcome.chunks += bool(chunk.choices and chunk.choices[0].text)
    except openai.APIError as error:
        outcome.error = error
        if isinstance(error, openai.APIStatusError):
            outcome.request_id = error.response.headers["x-request-id"]
    outcome.ends += 1


async def test_kill_of_the_core_under_load(stack: Stack) -> None:
    before = await stack.engine_status()
    streaming = [Outcome() for _ in range(STREAMS)]
    late = [Outcome() for _ in range(STREAMS)]
    async with caller(stack) as client:
        tasks = [asyncio.create_task(_stream(client, number, one)) for number, one in enumerate(streaming)]

        async def all_have_tokens() -> bool:
            return all(one.chunks >= 3 for one in streaming)

        await until(all_have_tokens)
        # These have hardly begun when the core dies: some of them without a token.
        tasks += [asyncio.create_task(_stream(client, 100 + number, one)) for number, one in enumerate(late)]
        await asyncio.sleep(0)
        os.kill(int(before["core_pid"]), signal.SIGKILL)
        await asyncio.gather(*tasks)

        async def serving_again() -> bool:
            try:
                await client.completions.create(model=SERVED_MODEL, prompt="again", max_tokens=2)
            except openai.APIError:
                return False
            return True

        await until(serving_again)
    after = await stack.engine_status()
    assert after["epoch"] != before["epoch"]
    assert after["pid"] == before["pid"]

    assert [one.ends for one in (*streaming, *late)] == [1] * (2 * STREAMS)
    assert all(one.error is not None for one in streaming), "a stream that was cut must not look complete"
    await _check_bills(stack, [*streaming, *late])


async def _check_bills(stack: Stack, outcomes: list[Outcome]) -> None:
    """Every token that was made is charged once; who got none pays nothing."""
    ids = [one.request_id for one in outcomes if one.request_id]

    async def no_holds() -> bool:
        return await stack.rows("SELECT 1 FROM hold WHERE request_id = ANY($1)", ids) == []

    await until(no_holds)
    events = await stack.rows("SELECT * FROM usage_event WHERE request_id = ANY($1)", ids)
    billed: dict[str, int] = {}
    for event in events:
        billed[event["request_id"]] = billed.get(event["request_id"], 0) + event["completion_tokens"]
        assert event["completion_tokens"] > 0 or event["amount_nanousd"] == 0
    for one in outcomes:
        if one.error is None:
            continue
        if one.chunks:
            assert billed[one.request_id] >= one.chunks
        elif billed.get(one.request_id, 0) == 0:
            charged = [event["amount_nanousd"] for event in events if event["request_id"] == one.request_id]
            assert sum(charged) == 0
