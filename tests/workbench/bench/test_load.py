"""Sending: what is asked, what is counted, and conversations that go on or break off. Against a scripted server."""

from __future__ import annotations

from engine.bench.client import Target
from tests.fakes.engine import FakeEngine
from tests.fakes.script import BROKEN, Script
from workbench.bench.datasets import Conversation, MultiTurn, Synthetic, Turn
from workbench.bench.load import Due, run_load


def _target(engine: FakeEngine, extra: str = '{"ignore_eos": true}') -> Target:
    return Target(f"{engine.url}/v1", engine.model, engine.api_key, extra)


async def test_prompts_go_to_completions() -> None:
    dataset = Synthetic(9, 4)
    async with FakeEngine() as engine:
        engine.default = Script(tokens=("a ", "b ", "c ", "d "))
        load = [Due(dataset.conversation(index), 0.0) for index in range(5)]
        seen: list[int] = []
        outcomes = await run_load(_target(engine), load, 2, seen.append)
        assert engine.running_max <= 2
        bodies = [request.body for request in engine.requests]
    assert {request.path for request in engine.requests} == {"/v1/completions"}
    assert all(len(body["prompt"]) == 9 and body["max_tokens"] == 4 and body["ignore_eos"] for body in bodies)
    assert [outcome.error for outcome in outcomes] == [None] * 5
    assert [outcome.output_tokens for outcome in outcomes] == [4] * 5
    assert sum(seen) == 5
    assert [outcome.sent_s for outcome in outcomes] == sorted(outcome.sent_s for outcome in outcomes)


async def test_a_chat_carries_the_answers_along() -> None:
    system = {"role": "system", "content": "Be brief."}
    chat = Conversation((Turn("one", 2), Turn("two", 2), Turn("three", 2)), is_chat=True, history=(system,))
    async with FakeEngine() as engine:
        engine.default = Script(tokens=("yes", "no"))
        outcomes = await run_load(_target(engine), [Due(chat, 0.0)])
        sent = [request.body["messages"] for request in engine.requests]
    assert [outcome.output_tokens for outcome in outcomes] == [2, 2, 2]
    assert all(len(outcome.chunk_times_s) == 2 for outcome in outcomes), "a role or an end alone is no token"
    answer = {"role": "assistant", "content": "yes no"}
    first, second, third = ({"role": "user", "content": text} for text in ("one", "two", "three"))
    assert sent == [
        [system, first],
        [system, first, answer, second],
        [system, first, answer, second, answer, third],
    ]


async def test_a_broken_turn_loses_the_turns_behind_it() -> None:
    async with FakeEngine() as engine:
        engine.default = Script(tokens=("x ",))
        engine.script(Script(tokens=("x ",)), Script(refuse=BROKEN))
        dues = [Due(MultiTurn(3, 1, 4).conversation(0), 0.0)]
        seen: list[int] = []
        outcomes = await run_load(_target(engine), dues, on_done=seen.append)
    assert [outcome.error is None for outcome in outcomes] == [True, False, False, False]
    assert sum(seen) == 4, "the bar comes to its end"
