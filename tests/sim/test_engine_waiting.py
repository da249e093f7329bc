"""Virtual time: nobody waits without end, whoever else keeps coming.

A line that is always full, and in it one request that would always come last: by the caller's own priorities, by a
deadline later than everybody's, by its class. Each guard is taken away once, to see that it is what lets it through.
"""

from __future__ import annotations

import random

import pytest

from engine.core import fairness
from engine.messages import AddRequest
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
