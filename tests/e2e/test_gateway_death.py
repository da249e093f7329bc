"""kill -9 of the gateway in the middle of its streams: the worker settles what the engine's journal says, once."""

import asyncio
import signal

import openai

from gateway.local.up import SERVED_MODEL
from tests.e2e.conftest import Stack, caller, in_flight, until
from tests.e2e.test_core_death import LONG, Outcome, _stream

STREAMS = 4
WHOLE = 2

_SETTLED = """
    SELECT e.request_id, e.corrects, e.prompt_uncached_tokens + e.prompt_cached_tokens AS prompt_tokens,
        e.completion_tokens, e.status, e.error_code, j.prompt_tokens AS journalled_prompt_tokens,
        j.completion_tokens AS journalled_completion_tokens, j.has_ended
    FROM usage_event e JOIN journal_attempt j USING (request_id) WHERE request_id = ANY($1)
"""


async def test_kill_of_the_gateway_in_its_streams(stack: Stack) -> None:
    ids: list[str] = []
    streaming = [Outcome() for _ in range(STREAMS)]
    async with caller(stack) as client:
        await client.completions.create(model=SERVED_MODEL, prompt="before", max_tokens=2)
        tasks = [asyncio.create_task(_stream(client, number, one)) for number, one in enumerate(streaming)]
        tasks += [asyncio.create_task(_stream_less(client, number)) for number in range(WHOLE)]

        async def all_have_begun() -> bool:
            ids[:] = await in_flight(stack)
            return len(ids) == STREAMS + WHOLE and all(one.chunks >= 3 for one in streaming)

        await until(all_have_begun)
        assert stack.part("gateway").send(signal.SIGKILL)
        await asyncio.gather(*tasks)
    assert [one.ends for one in streaming] == [1] * STREAMS
    assert all(one.error is not None for one in streaming), "a stream that was cut must not look complete"

    async def no_holds() -> bool:
        return await stack.rows("SELECT 1 FROM hold") == []

    await until(no_holds)  # the heartbeat's silence, and the journal's lag
    settled = await stack.rows(_SETTLED, ids)
    assert sorted(row["request_id"] for row in settled) == sorted(ids), "each once"
    for row in settled:
        assert (row["error_code"], row["corrects"], row["has_ended"]) == ("gateway_lost", None, True)
        assert row["prompt_tokens"] == row["journalled_prompt_tokens"]
        assert row["completion_tokens"] == row["journalled_completion_tokens"] > 0
    billed = {row["request_id"]: row["completion_tokens"] for row in settled}
    assert all(billed[one.request_id] >= one.chunks for one in streaming)
    (held,) = await stack.rows("SELECT coalesce(sum(held_nanousd), 0)::bigint AS nanousd FROM budget_period")
    assert held["nanousd"] == 0
    log = (stack.home / "log" / "worker.log").read_text()
    assert "worker_loop_failed" not in log
    assert "journal_and_ledger_differ" not in log


async def _stream_less(client: openai.AsyncOpenAI, number: int) -> None:
    try:
        await client.completions.create(model=SERVED_MODEL, prompt=f"whole {number}", **LONG)
    except openai.APIConnectionError:
        return
    raise AssertionError("its gateway was killed")
