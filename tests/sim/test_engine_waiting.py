"""Virtual time: nobody waits without end, whoever else keeps coming.

A line that is always full, and in it one request that would always come last: by the caller's own priorities, by a
deadline later than everybody's, by its class. Each guard is taken away once, to see that it is what lets it through.
"""

from __future__ import annotations

import random

import pytest

from engine.core import fairness, policy
from engine.messages import AddRequest
from tests.sim.test_engine_promises import CHAT_RPS
from tests.sim.virtual import Story, Virtual, poisson, request, settings

LINE_S = 40.0
"""How long a request may wait in line."""
PROMPT, ANSWER = (400, 1200), (50, 200)


def last_in_line(last: dict[str, object], others: dict[str, object]) -> Story:
    """What became of one request of an id whose others come faster than they can be answered."""
    rng, engine = random.Random(1), Virtual(settings(max_num_seqs=32, queue_timeout_s=LINE_S))

    def other(number: int) -> AddRequest:
        return request(f"other{number}", rng.randint(*PROMPT), rng.randint(*ANSWER), **others)

    engine.arrive(poisson(rng, 20.0, 10.0 + LINE_S, other))
    engine.arrive([(10.0, request("last", 100, 10, **last))])
    engine.run(11.0 + LINE_S)
    assert engine.loop._scheduler.waiting.num_requests > 32, "there is always somebody else"
    return engine.stories["last"]


@pytest.mark.parametrize(
    ("last", "others"),
    [({"priority": 2**31 - 1}, {}), ({}, {"ttft_ms": 1000.0})],
    ids=["priority", "deadline"],
)
def test_the_last_of_an_id_gets_its_turn(last: dict[str, object], others: dict[str, object]) -> None:
    """A priority says who goes first, and not that the others go never."""
    story = last_in_line(last, others)
    assert not story.is_refused
    assert story.ttft_s < LINE_S / 2


def test_without_turns_of_the_oldest_it_would_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "OLDEST_EVERY", 10**9)
    story = last_in_line({"priority": 2**31 - 1}, {})
    assert story.is_refused
    assert story.ended_s >= 10.0 + LINE_S


def beside_an_overload(until_s: float) -> tuple[Story, int]:
    """A batch request of 2.4 s of work, for which the pool has little room, and how often it was preempted."""
    rng, engine = random.Random(2), Virtual(settings(num_blocks=8000, max_num_seqs=64, queue_timeout_s=5.0))

    def chat(number: int) -> AddRequest:
        return request(f"chat{number}", rng.randint(*PROMPT), rng.randint(*ANSWER), fairness_id="chat")

    engine.arrive(poisson(rng, 1.3 * CHAT_RPS, until_s, chat))
    engine.arrive([(5.0, request("batch", 40_000, 20, fairness_id="jobs", request_class="batch"))])
    engine.run(until_s)
    return engine.stories["batch"], engine.loop._scheduler.num_preemptions


def test_batch_work_that_is_preempted_again_and_again_comes_to_its_end() -> None:
    """Duty engine-6: what it computed is lost at most so often; the tenth of the time is not spent in vain."""
    story, num_preemptions = beside_an_overload(60.0)
    assert len(story.token_times) == 20
    assert num_preemptions >= policy.MOST_PREEMPTED


def test_without_an_end_of_preemptions_it_would_never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "MOST_PREEMPTED", 10**9)
    story, num_preemptions = beside_an_overload(60.0)
    assert not story.token_times
    assert num_preemptions > 4
