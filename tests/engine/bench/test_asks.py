"""engine.bench.asks: requests from a seed, and every fault an answer can have."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from engine.bench.asks import Ask, Sizes, draw_ask

SIZES = Sizes(longest_prompt=60, longest_answer=9, vocab=500)


def test_the_same_seed_draws_the_same_requests_within_the_sizes() -> None:
    asks = [draw_ask(random.Random(number), "m", SIZES) for number in range(400)]
    assert asks == [draw_ask(random.Random(number), "m", SIZES) for number in range(400)]
    lengths = [len(ask.body["prompt"]) for ask in asks]
    assert min(lengths) == 1
    assert 50 < max(lengths) <= 60
    assert {ask.body["max_tokens"] for ask in asks} == set(range(1, 10))
    assert all(0 <= token < 500 for ask in asks for token in ask.body["prompt"])
    for feature in (
        "n",
        "logprobs",
        "top_p",
        "presence_penalty",
        "structured_outputs",
        "response_format",
        "stream",
    ):
        assert any(feature in ask.body for ask in asks), feature
    assert 0 < sum(ask.leaves_after is not None for ask in asks) < 120


def _ask(**more: Any) -> Ask:
    return Ask({"prompt": [1, 2, 3], "max_tokens": 2, "ignore_eos": True} | more)


USAGE = {"prompt_tokens": 3, "completion_tokens": 2}
GOOD = {"finish_reason": "length", "text": "ab"}
SCHEMA = {"response_format": {}, "ignore_eos": False}
PART = json.dumps({"name": "x", "count": 1, "kind": "small"})


def test_a_right_answer_has_no_fault() -> None:
    assert _ask().faults(USAGE, [GOOD]) == []
    assert _ask(n=2).faults(USAGE | {"completion_tokens": 4}, [GOOD, GOOD]) == []
    assert _ask(logprobs=1).faults(USAGE, [GOOD | {"logprobs": {"token_logprobs": [-1.0, 0.0]}}]) == []
    assert _ask(**SCHEMA).faults(USAGE, [{"finish_reason": "stop", "text": PART}]) == []
    ended = {"finish_reason": "stop", "text": "north", "logprobs": {"token_logprobs": [-1.0]}}
    assert _ask(logprobs=0, ignore_eos=False).faults(USAGE, [ended]) == []
    assert _ask(**SCHEMA).faults(USAGE, [{"finish_reason": "length", "text": PART[:5]}]) == []


@pytest.mark.parametrize(
    ("ask", "usage", "choice", "said"),
    [
        (_ask(n=2), USAGE, GOOD, "1 choices instead of 2"),
        (_ask(), USAGE | {"prompt_tokens": 4}, GOOD, "4 prompt tokens instead of 3"),
        (_ask(), USAGE | {"completion_tokens": 1}, GOOD, "1 tokens instead of 1 times 2"),
        (_ask(), USAGE, GOOD | {"finish_reason": None}, "finished for None"),
        (_ask(logprobs=0), USAGE, GOOD, "0 log-probabilities of 2 tokens"),
        (_ask(logprobs=0), USAGE, GOOD | {"logprobs": {"token_logprobs": [-1, 0.5]}}, "the largest 0.5"),
        (_ask(**SCHEMA), USAGE, {"finish_reason": "stop", "text": PART[:-1]}, "no JSON"),
        (_ask(**SCHEMA), USAGE, {"finish_reason": "stop", "text": '{"name": "x"}'}, "not of the schema"),
        (_ask(**SCHEMA), USAGE, {"finish_reason": "stop", "text": "[]"}, "not of the schema"),
    ],
)
def test_every_fault_is_said(ask: Ask, usage: dict[str, int], choice: dict[str, Any], said: str) -> None:
    (fault,) = ask.faults(usage, [choice])
    assert said in fault
