"""Virtual time: ids that always have requests waiting get equal service, whatever they send.

Service is counted here from what callers received, not from the scheduler's own counters: uncached prompt
tokens and output tokens, weighted, divided by the id's weight. Over any interval in which two ids both wait
their services differ by at most 2 · max(w_in · longest prompt, w_out · tokens that run at once).
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from engine.core import fairness
from engine.core.fairness import INPUT_WEIGHT, OUTPUT_WEIGHT, FairQueue
from engine.messages import AddRequest
from tests.engine.core.harness import Engine, add, config, layout

LONGEST_PROMPT = 120
NUM_BLOCKS = 40
TURNS = 4_000


@dataclass(frozen=True)
class Habit:
    """How one id behaves."""

    prompt: tuple[int, int]
    output: tuple[int, int]
    backlog: int
    """Requests waiting after each top-up; more than there are rows, so that it never runs dry."""
    weight: float = 1.0
    joins_at: int = 0


@dataclass
class Market:
    """Keeps every id's backlog full and counts what it gets."""

    habits: dict[str, Habit]
    rng: random.Random = field(default_factory=lambda: random.Random(11))
    service: Counter[str] = field(default_factory=Counter)
    waiting: Counter[str] = field(default_factory=Counter)
    requests: dict[str, AddRequest] = field(default_factory=dict)

    def top_up(self, engine: Engine, turn: int) -> None:
        for id, habit in self.habits.items():
            while turn >= habit.joins_at and self.waiting[id] < habit.backlog:
                prompt = [self.rng.randrange(10**6) for _ in range(self.rng.randint(*habit.prompt))]
                request = add(
                    f"{id}-{len(self.requests)}",
                    prompt,
                    max_tokens=self.rng.randint(*habit.output),
                    fairness_id=id,
                    fairness_weight=habit.weight,
                )
                self.requests[request.request_id] = request
                self.waiting[id] += 1
                engine.submit(request)

    def count(self, engine: Engine) -> None:
        for _, message in engine.emitted:
            for output in message.outputs:
                assert output.finish_reason != "error"
                request = self.requests[output.request_id]
                id, tokens = request.fairness_id, OUTPUT_WEIGHT * len(output.token_ids)
                if output.num_cached_tokens is not None:
                    self.waiting[id] -= 1
                    tokens += INPUT_WEIGHT * (len(request.prompt_token_ids) - output.num_cached_tokens)
                self.service[id] += tokens / request.fairness_weight  # type: ignore[assignment]
        engine.emitted.clear()


def widest_gap(habits: dict[str, Habit]) -> float:
    """Largest difference of two ids' services over any interval in which both wait."""
    engine = Engine(
        config(
            layout(NUM_BLOCKS),
            max_num_queued_reqs=10_000,
            queue_timeout_s=1e9,
            debug_invariants=False,
        )
    )
    market, lowest, highest = Market(habits), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    start: dict[tuple[str, str], float] = {}
    for turn in range(TURNS):
        market.top_up(engine, turn)
        engine.turn()
        market.count(engine)
        for one in habits:
            for other in habits:
                if turn >= max(habits[one].joins_at, habits[other].joins_at):
                    gap = market.service[one] - market.service[other]
                    gap -= start.setdefault((one, other), gap)
                    lowest[one, other] = min(lowest[one, other], gap)  # type: ignore[assignment]
                    highest[one, other] = max(highest[one, other], gap)  # type: ignore[assignment]
    assert min(market.service.values()) > 3_000, "everybody is served"
    return max(highest[pair] - lowest[pair] for pair in highest)


def bound(habits: dict[str, Habit]) -> float:
    most = max(INPUT_WEIGHT * LONGEST_PROMPT, OUTPUT_WEIGHT * NUM_BLOCKS * 16)
    return 2 * most / min(habit.weight for habit in habits.values())


MARKETS = {
    "flood": {"flood": Habit((20, 40), (10, 30), 60), "quiet": Habit((20, 40), (10, 30), 9)},
    "shapes": {
        "prompts": Habit((100, LONGEST_PROMPT), (1, 4), 9),
        "answers": Habit((5, 10), (60, 120), 9),
        "mixed": Habit((10, 60), (5, 60), 9),
    },
    "weights": {
        "gold": Habit((20, 40), (10, 30), 10, weight=3.0),
        "plain": Habit((20, 40), (10, 30), 10),
        "large": Habit((60, 90), (30, 60), 10),
    },
    "latecomer": {
        "early": Habit((20, 40), (10, 30), 10),
        "late": Habit((20, 40), (10, 30), 10, joins_at=TURNS // 3),
    },
}


@pytest.mark.parametrize("name", MARKETS)
def test_services_of_waiting_ids_differ_by_no_more_than_the_bound(name: str) -> None:
    """Duty engine-4: what ids are served is equal by weight, whatever they send."""
    habits = MARKETS[name]
    gap = widest_gap(habits)
    print(name, "gap", gap, "bound", bound(habits))
    assert gap <= bound(habits)


def test_first_come_first_served_would_break_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "_turn", lambda account: account.waiting[0].sequence)
    habits = MARKETS["flood"]
    assert widest_gap(habits) > 2 * bound(habits)


def test_without_the_lift_a_latecomer_would_break_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FairQueue, "_entry", lambda queue: 0.0)
    habits = MARKETS["latecomer"]
    assert widest_gap(habits) > bound(habits)
