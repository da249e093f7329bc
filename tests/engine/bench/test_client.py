"""engine.bench.client against a scripted server: what is sent, what is noted, and failures as outcomes."""

from __future__ import annotations

import asyncio

from engine.bench.client import Target, run_client
from engine.bench.stats import Outcome
from engine.bench.workload import Workload
from tests.fakes.engine import FakeEngine
from tests.fakes.script import BROKEN, Script

WORKLOAD = Workload(6, 12, 5)
WORDS = ("a ", "b ", "c ", "d ", "e ")


async def _run(engine: FakeEngine, concurrency: int | None) -> list[Outcome]:
    target = Target(f"{engine.url}/v1", engine.model, engine.api_key, '{"top_k": 7}')
    return await asyncio.to_thread(run_client, target, WORKLOAD, range(6), [0.0] * 6, concurrency)


async def test_notes_each_chunk_and_the_usage() -> None:
    async with FakeEngine() as engine:
        engine.default = Script(tokens=WORDS, cached_tokens=4)
        outcomes = await _run(engine, 2)
        assert engine.running_max == 2
        bodies = [seen.body for seen in engine.requests]
    assert [len(body["prompt"]) for body in bodies] == [12] * 6
    assert all(body["max_tokens"] == 5 and body["ignore_eos"] and body["top_k"] == 7 for body in bodies)
    assert [outcome.error for outcome in outcomes] == [None] * 6
    assert [outcome.output_tokens for outcome in outcomes] == [5] * 6
    assert [outcome.cached_tokens for outcome in outcomes] == [4] * 6
    assert all(len(outcome.chunk_times_s) >= 5 for outcome in outcomes)
    assert all(list(o.chunk_times_s) == sorted(o.chunk_times_s) and o.ttft_ms > 0 for o in outcomes)


async def test_failures_are_outcomes() -> None:
    async with FakeEngine() as engine:
        engine.default = Script(tokens=WORDS)
        cut = Script(cut_before_answer=True)  # twice: a request that is cut once is sent again
        engine.script(Script(refuse=BROKEN), Script(tokens=WORDS, fail_after=2), cut, cut)
        outcomes = await _run(engine, 1)
    errors = [outcome.error for outcome in outcomes]
    assert errors[3:] == [None] * 3
    assert errors[0] is not None
    assert errors[0].startswith("500")
    assert errors[1] is not None
    assert '"error"' in errors[1]
    assert errors[2] is not None
