"""The sweep: its order and sizes against a scripted server, and whole against a real engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.bench.client import Target
from engine.bench.stats import Objectives
from tests.engine.test_core_process import serving
from tests.fakes.engine import FakeEngine
from tests.fakes.script import BROKEN, Script
from tests.models import write_tiny_llama
from workbench.bench.datasets import Conversation, Listed, MultiTurn, Synthetic, Turn
from workbench.bench.errors import BenchError
from workbench.bench.results import Result, as_json
from workbench.bench.sweep import SHARES, Server, Sweep, Watcher, conversations_at, run_sweep

NONE = Objectives()


class Listening(Watcher):
    def __init__(self) -> None:
        self.parts: list[tuple[str, int]] = []
        self.ended = 0

    def begins(self, what: str, requests: int) -> None:
        self.parts.append((what, requests))

    def done(self, requests: int) -> None:
        self.ended += requests


def _server(label: str, engine: FakeEngine) -> Server:
    return Server(label, Target(f"{engine.url}/v1", engine.model, engine.api_key))


def test_requests_at_a_rate() -> None:
    one = Sweep(dataset=Synthetic(1, 1), objectives=NONE, duration_s=10)
    assert [conversations_at(one, rate) for rate in (0.1, 2, 7.25)] == [20, 20, 73]
    four = Sweep(dataset=MultiTurn(1, 1, 4), objectives=NONE, duration_s=10)
    assert conversations_at(four, 8) == 20, "80 requests in conversations of four"


async def test_two_servers_take_turns_in_going_first_and_are_asked_the_same() -> None:
    async with FakeEngine() as first, FakeEngine() as second:
        sweep = Sweep(
            dataset=Synthetic(3, 2),
            objectives=NONE,
            rates=(400.0, 100.0, 200.0),
            duration_s=0.01,
            requests_min=4,
        )
        watcher = Listening()
        servers = [_server("a", first), _server("b", second)]
        result = await run_sweep(sweep, servers, {}, watcher)
        prompts = [
            sorted(map(str, (r.body["prompt"] for r in engine.requests))) for engine in (first, second)
        ]
    assert [what for what, _ in watcher.parts] == [
        "a at 100/s", "b at 100/s", "b at 200/s", "a at 200/s", "a at 400/s", "b at 400/s",
    ]  # fmt: skip
    assert watcher.ended == sum(requests for _, requests in watcher.parts) == 24
    assert prompts[0] == prompts[1]
    assert len(set(prompts[0])) == 3 + 12, "no prompt comes twice: three to warm up, four a rate"
    assert [point.rate for point in result.runs[0].points] == [100, 200, 400]
    assert len(as_json(result)["ratios"]) == 3


async def test_rates_are_found_from_what_the_server_manages() -> None:
    async with FakeEngine() as engine:
        sweep = Sweep(
            dataset=Synthetic(3, 2), objectives=NONE, duration_s=0.001, requests_min=2, concurrency=2
        )
        watcher = Listening()
        result = await run_sweep(sweep, [_server("a", engine)], {}, watcher)
    assert watcher.parts[0] == ("a, never idle", 4)
    rates = [point.rate for point in result.runs[0].points]
    assert len(rates) == len(SHARES)
    assert rates[0] == pytest.approx(rates[-2] * SHARES[0], rel=0.02), "a tenth of all that it manages"


async def test_failures_and_repeated_conversations_are_said() -> None:
    listed = Listed((Conversation((Turn((1, 2), 1),)), Conversation((Turn((3, 4), 1),))))
    async with FakeEngine() as engine:
        engine.script(Script(), Script(), Script(), Script(refuse=BROKEN))
        sweep = Sweep(dataset=listed, objectives=NONE, rates=(100.0,), duration_s=0.01, requests_min=5)
        result = await run_sweep(sweep, [_server("a", engine)], {}, Watcher())
    assert result.notes[0] == "the file's 2 conversations were sent 5 times in all: prefix caches knew them"
    assert result.notes[1].startswith("a: 1 requests failed, the first with 500: ")
    assert result.runs[0].points[0].attained == 0.8


async def test_a_server_that_answers_nothing_is_an_error_with_its_answer() -> None:
    async with FakeEngine() as engine:
        engine.default = Script(refuse=BROKEN)
        sweep = Sweep(dataset=Synthetic(3, 2), objectives=NONE, rates=(1.0,))
        with pytest.raises(BenchError, match="answers no request of this data set: 500"):
            await run_sweep(sweep, [_server("a", engine)], {}, Watcher())


async def test_a_real_engine_is_swept(tmp_path: Path) -> None:
    """Token ids with shared prefixes, and chats of several turns: every token counted, caches used."""
    async with serving(write_tiny_llama(tmp_path / "model")) as engine:
        target = Target(f"{engine.url}/v1", "m", extra_body='{"ignore_eos": true}')
        shared = Synthetic(24, 6, prefix_tokens=48, num_prefixes=2, vocab=(10, 400))
        chats = MultiTurn(input_words=4, output_tokens=5, turns=2)
        results: list[Result] = []
        for dataset in (shared, chats):
            sweep = Sweep(
                dataset=dataset,
                objectives=Objectives(ttft_ms=1e9),
                rates=(20.0, 60.0),
                duration_s=0.1,
                requests_min=8,
            )
            results.append(await run_sweep(sweep, [Server("tiny", target)], {}, Watcher()))
    for result, tokens in zip(results, (6, 5), strict=True):
        (run,) = result.runs
        assert result.notes == ()
        for point in run.points:
            report = point.report
            assert (report.completed, report.failed, point.attained) == (8, 0, 1.0)
            assert report.output_tokens_per_s * report.duration_s == pytest.approx(8 * tokens)
            assert all(request["ttft_ms"] is not None for request in point.requests)
