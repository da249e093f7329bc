"""kill -9 of the engine's API process: one end each, and the ledger has every attempt that the journal has."""

import asyncio
import os
import signal
from typing import Any

import openai

from gateway.local.up import SERVED_MODEL
from tests.e2e.conftest import Stack, caller, in_flight, until
from tests.e2e.test_core_death import LONG, Outcome, _stream

STREAMS = 3
WHOLE = 3

# Both ways: what one of them has and the other has not, or has otherwise.
_DIFFERENCES = """
    SELECT request_id, attempt, j.prompt_tokens, a.prompt_tokens, j.completion_tokens, a.completion_tokens
    FROM journal_attempt j FULL JOIN attempt a USING (request_id, attempt)
    WHERE request_id = ANY($1) AND (j.prompt_tokens, j.completion_tokens)
        IS DISTINCT FROM (a.prompt_tokens, a.completion_tokens)
"""
_EVENT_IS_BILLED = """
    SELECT request_id, e.completion_tokens = (
        SELECT coalesce(sum(billed_completion_tokens), 0) FROM attempt a WHERE a.request_id = e.request_id
    ) AS is_equal FROM usage_event e WHERE request_id = ANY($1)
"""


async def test_kill_of_the_engines_api(stack: Stack) -> None:
    """A whole answer has no headers before its end, so its connection looks merely stale, and it is asked again:
    the attempt that died with the engine is accounted for when its journal is read."""
    ids: list[str] = []
    streaming = [Outcome() for _ in range(STREAMS)]
    async with caller(stack) as client:
        # Connections to the engine that will be used again.
        await asyncio.gather(
            *(_whole(client, 100 + number, max_tokens=2) for number in range(WHOLE + STREAMS))
        )
        tasks = [asyncio.create_task(_stream(client, number, one)) for number, one in enumerate(streaming)]
        wholes = [asyncio.create_task(_whole(client, number, **LONG)) for number in range(WHOLE)]

        async def all_have_begun() -> bool:
            ids[:] = await in_flight(stack)
            return len(ids) == STREAMS + WHOLE and all(one.chunks >= 3 for one in streaming)

        await until(all_have_begun)
        os.kill(int((await stack.engine_status())["pid"]), signal.SIGKILL)
        await asyncio.gather(*tasks, *wholes)
    assert [one.ends for one in streaming] == [1] * STREAMS
    assert all(one.error is not None for one in streaming), "a stream that was cut must not look complete"

    async def accounted() -> bool:
        journalled = await stack.rows(
            "SELECT DISTINCT request_id FROM journal_attempt WHERE request_id = ANY($1) AND has_ended", ids
        )
        return len(journalled) == len(ids) and await stack.rows(_DIFFERENCES, ids) == []

    await until(accounted)
    events = await stack.rows(_EVENT_IS_BILLED, ids)
    assert sorted(row["request_id"] for row in events) == sorted(ids), "one event each"
    assert all(row["is_equal"] for row in events)
    assert await stack.rows("SELECT 1 FROM hold") == []
    assert "journal_and_ledger_differ" not in (stack.home / "log" / "worker.log").read_text()


async def _whole(client: openai.AsyncOpenAI, number: int, **fields: Any) -> None:
    """Answered by a second attempt, or refused once."""
    try:
        await client.completions.create(model=SERVED_MODEL, prompt=f"whole {number}", **fields)
    except openai.APIStatusError as error:
        assert error.status_code in (500, 503)  # noqa: PT017  (either way of ending is right)
