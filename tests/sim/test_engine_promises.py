"""Virtual time: objectives hold beside long prompts, batch work and floods, and nobody starves for them.

Steps take what the cost model of `virtual` says. Each guard is taken away once, to see that it is what keeps the
promise.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from engine.core import floor, pace, turns
from engine.core.kv import KVManager
from engine.core.steptime import StepTimes
from engine.messages import AddRequest
from tests.sim.virtual import Story, Virtual, capacity, p95, poisson, request, settings

CHAT_RPS, LONG_RPS = 25.4, 0.0656
"""What the engine can do of each kind alone; `test_what_the_engine_can_do` measures it."""
TTFT_S, TPOT_S = 1.0, 0.015


def chat(rng: random.Random, **fields: object) -> Callable[[int], AddRequest]:
    """Requests of people."""

    def make(number: int) -> AddRequest:
        named = {"fairness_id": f"tenant{number % 5}", **fields}
        return request(f"chat{number}", rng.randint(400, 1200), rng.randint(50, 200), **named)

    return make


def long(number: int) -> AddRequest:
    return request(f"long{number}", 128_000, 100, fairness_id="long")


def batch(rng: random.Random, count: int, prompts: tuple[int, int] = (1000, 4000)) -> list[AddRequest]:
    return [
        request(
            f"batch{number}",
            rng.randint(*prompts),
            rng.randint(100, 400),
            fairness_id=f"jobs{number % 2}",
            request_class="batch",
        )
        for number in range(count)
    ]


def served(engine: Virtual, prefix: str) -> list[Story]:
    stories = [story for story in engine.of(prefix) if story.token_times and story.final is not None]
    assert not any(story.is_refused for story in stories)
    return stories


def test_what_the_engine_can_do() -> None:
    """The loads below are parts of this."""
    make = chat(random.Random(5))
    assert capacity([make(number) for number in range(800)], settings()) == pytest.approx(CHAT_RPS, rel=0.1)
    assert capacity([long(0)], settings()) == pytest.approx(LONG_RPS, rel=0.1)


def beside_long_prompts(seed: int) -> Virtual:
    """Half of a load of 70 % is one tenant's prompts of 128K tokens, each 15 s of work."""
    rng, engine = random.Random(seed), Virtual(settings())
    engine.arrive(poisson(rng, 0.35 * CHAT_RPS, 120.0, chat(rng, fairness_id="people")))
    engine.arrive((5.0 + 40.0 * number, long(number)) for number in range(3))
    engine.run(120.0)
    return engine


@pytest.mark.parametrize("seed", [1, 2])
def test_long_prompts_do_not_push_others_beyond_their_objective(seed: int) -> None:
    print("seed", seed)
    engine = beside_long_prompts(seed)
    stories = served(engine, "chat")
    assert len(stories) > 900
    assert p95(story.ttft_s for story in stories) < TTFT_S
    assert len(served(engine, "long")) == 3, "and they are read themselves"


def test_without_turns_they_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_TOKENS", 10**12)
    assert p95(story.ttft_s for story in served(beside_long_prompts(1), "chat")) > 5 * TTFT_S


def test_with_turns_of_equal_tokens_they_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far into a long prompt a token costs several times as much."""
    monkeypatch.setattr(StepTimes, "key_cost", 0.0)
    assert p95(story.ttft_s for story in served(beside_long_prompts(1), "chat")) > 2 * TTFT_S


def beside_batch(
    load: float, seed: int, *, count: int = 400, prompts: tuple[int, int] = (1000, 4000), **changes: object
) -> Virtual:
    """People's requests with promises, and more batch work than can be done."""
    rng, engine = random.Random(seed), Virtual(settings(**changes))
    promised = chat(rng, ttft_ms=TTFT_S * 1e3, tpot_ms=TPOT_S * 1e3)
    engine.arrive(poisson(rng, load * CHAT_RPS, 40.0, promised))
    engine.arrive((0.0, message) for message in batch(rng, count, prompts))
    engine.run(40.0)
    return engine


@pytest.mark.parametrize("changes", [{}, {"num_blocks": 3000}, {"max_num_seqs": 32}], ids=str)
def test_batch_work_never_breaks_an_interactive_promise(changes: dict[str, object]) -> None:
    engine = beside_batch(0.5, 6, **changes)
    stories = served(engine, "chat")
    assert len(stories) > 400
    assert p95(story.ttft_s for story in stories) < TTFT_S
    assert p95(story.tpot_s for story in stories) < TPOT_S
    assert sum(len(story.token_times) for story in engine.of("batch")) > 10_000, "what is left is used"


def test_without_the_pace_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "tightest", lambda answers: None)
    assert p95(story.tpot_s for story in served(beside_batch(0.5, 6), "chat")) > 1.3 * TPOT_S


def test_a_prompt_that_sits_a_step_out_costs_it_no_time() -> None:
    """Batch work read up to 60,000 tokens waits for its turns: those that are read have the time to themselves."""
    engine = beside_batch(0.5, 6, count=20, prompts=(60_000, 60_000))
    stories = served(engine, "chat")
    assert len(stories) > 400
    assert p95(story.ttft_s for story in stories) < TTFT_S / 2
    assert p95(story.tpot_s for story in stories) < TPOT_S
    assert batch_part(engine) > 0.08, "and what is left is used"


def test_with_the_position_of_one_prompt_for_all_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = pace.Allowance.room
    monkeypatch.setattr(pace.Allowance, "room", lambda left, position, most: taken(left, 60_000, most))
    stories = served(beside_batch(0.5, 6, count=20, prompts=(60_000, 60_000)), "chat")
    assert p95(story.ttft_s for story in stories) > 0.75 * TTFT_S


def batch_part(engine: Virtual) -> float:
    """Of all the work done, as fairness counts it."""

    def work(stories: list[Story]) -> float:
        return sum(
            len(each.message.prompt_token_ids) + 2 * len(each.token_times)
            for each in stories
            if each.token_times
        )

    lower = work(engine.of("batch"))
    return lower / (lower + work(engine.of("chat")))


def test_batch_work_gets_its_tenth_of_an_overloaded_engine() -> None:
    assert 0.08 < batch_part(beside_batch(1.3, 7)) < 0.2


def test_without_the_floor_it_would_starve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floor, "SHARE", 0.0)
    assert batch_part(beside_batch(1.3, 7)) < 0.03


def reading_under_an_impossible_promise() -> float:
    """Part of the step time that prompts get beside answers whose promise is broken by themselves."""
    engine = Virtual(settings())
    engine.arrive(
        (0.0, request(f"chat{number}", 50, 3000, tpot_ms=1.0, fairness_id="chat")) for number in range(100)
    )
    engine.arrive([(2.0, request("long", 60_000, 1, fairness_id="long"))])
    engine.run(10.0)
    (story,) = engine.of("long")
    reading = next(each for each in engine.loop._scheduler.running() if each.id == "long")
    assert not story.token_times
    return 25e-6 * reading.num_computed / 8.0


def test_no_promise_can_stop_prompts() -> None:
    assert 0.05 < reading_under_an_impossible_promise() < 0.2


def test_without_the_floor_of_prompts_it_nearly_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "FLOOR", 0.0)
    assert reading_under_an_impossible_promise() < 0.04


@pytest.mark.parametrize("num_blocks", [50_000, 6_000])
def test_throughput_stays_within_five_percent_of_first_come_first_served(num_blocks: int) -> None:
    """The same work as one nameless id, which is served in the order of arrival."""
    rng = random.Random(9)
    mixed: list[tuple[int, int, dict[str, object]]] = []
    for number in range(500):
        prompt, output = rng.choice([(300, 200), (1500, 100), (4000, 300), (100, 400)])
        kind = "batch" if number % 4 == 0 else "interactive"
        mixed.append((prompt, output, {"fairness_id": f"t{number % 7}", "request_class": kind}))
    plain = [request(f"r{number}", prompt, output) for number, (prompt, output, _) in enumerate(mixed)]
    fair = [
        request(f"r{number}", prompt, output, **how) for number, (prompt, output, how) in enumerate(mixed)
    ]
    limits = settings(num_blocks=num_blocks)
    rates = capacity(fair, limits), capacity(plain, limits)
    print("requests/s", rates)
    assert rates[0] > 0.95 * rates[1]


def test_a_large_request_is_not_starved_by_small_ones_that_fit() -> None:
    rng, engine = random.Random(3), Virtual(settings(num_blocks=1000, max_num_seqs=64))
    engine.arrive(poisson(rng, 20.0, 30.0, lambda n: request(f"small{n}", 300, 300, fairness_id="same")))
    engine.arrive([(10.0, request("large", 12_000, 5, fairness_id="same"))])
    engine.run()
    (story,) = engine.of("large")
    longest = max(each.ended_s - each.token_times[0] for each in engine.of("small"))
    assert story.ttft_s < 1.0 + longest + 2.0, "those that run then end, and nobody else begins"


def test_every_request_is_answered_however_mixed() -> None:
    """Duty engine-10: admission comes to no stop, whatever is asked for together."""
    rng, engine = random.Random(4), Virtual(settings(num_blocks=2000, max_num_seqs=32))
    for number in range(300):
        message = request(
            f"r{number}",
            rng.choice([10, 300, 3000, 20_000]),
            rng.randint(1, 200),
            fairness_id=f"t{rng.randrange(6)}",
            fairness_weight=rng.choice([0.5, 1.0, 4.0]),
            request_class=rng.choice(["interactive", "batch"]),
            ttft_ms=rng.choice([None, 10.0, 1000.0]),
            tpot_ms=rng.choice([None, 1.0, 20.0]),
            max_kv_fraction=rng.choice([1.0, 0.7]),
        )
        engine.arrive([(rng.uniform(0.0, 20.0), message)])
    engine.run()
    assert all(story.final is not None and not story.is_refused for story in engine.of("r"))
    engine.loop.check_integrity()


def greedy(engine: Virtual) -> tuple[float, float]:
    """(largest part of the pool that the greedy id held, p95 of the others' time to the first token)."""
    most = [0]

    def look() -> None:
        tables = [each.tables[0] for each in engine.loop._scheduler.running() if each.fairness_id == "greedy"]
        most[0] = max(most[0], sum(map(len, tables)))

    engine.on_turn = look
    rng = random.Random(8)
    engine.arrive(
        (0.1 * n, request(f"greedy{n}", 3000, 1500, fairness_id="greedy", max_kv_fraction=0.5))
        for n in range(100)
    )
    engine.arrive(poisson(rng, 4.0, 40.0, lambda n: request(f"chat{n}", 300, 50, fairness_id="chat")))
    engine.run(40.0)
    return most[0] / 5000, p95(story.ttft_s for story in served(engine, "chat"))


def test_an_id_holds_no_more_than_its_share_and_the_rest_is_the_others() -> None:
    """Duty engine-4: pages are shared as well as turns."""
    part, ttft_s = greedy(Virtual(settings(num_blocks=5000)))
    assert 0.4 < part < 0.505, "a page for each running answer is noticed when it is there"
    assert ttft_s < TTFT_S


def test_without_the_cap_it_would_hold_nearly_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KVManager, "exceeds_share", lambda *arguments: False)
    monkeypatch.setattr(KVManager, "share_pages", lambda manager, asking: manager.pool.num_blocks)
    part, _ = greedy(Virtual(settings(num_blocks=5000)))
    assert part > 0.9
