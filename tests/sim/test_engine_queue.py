"""Virtual time: the line is bounded, nobody can fill it, and who is refused is told a time that holds."""

from __future__ import annotations

import random

import pytest

from engine.core.fairness import FairQueue
from engine.messages import AddRequest
from tests.sim.virtual import Virtual, poisson, request, settings

MOST = 40


def overloaded(seed: int, *, quiet_rps: float = 2.0) -> Virtual:
    """One id sends twice what can be done, another a little."""
    rng = random.Random(seed)
    engine = Virtual(settings(max_num_queued_reqs=MOST, max_num_queued_tokens=60_000, max_num_seqs=32))
    longest = [0, 0]

    def look() -> None:
        waiting = engine.loop._scheduler.waiting
        longest[:] = max(longest[0], waiting.num_requests), max(longest[1], waiting.num_tokens)

    def flood(number: int) -> AddRequest:
        return request(f"flood{number}", rng.randint(200, 2000), rng.randint(50, 200), fairness_id="flood")

    engine.on_turn = look
    engine.arrive(poisson(rng, 40.0, 40.0, flood))
    engine.arrive(poisson(rng, quiet_rps, 40.0, lambda n: request(f"quiet{n}", 500, 50, fairness_id="quiet")))
    engine.run()
    assert longest[0] <= MOST + 32
    assert longest[1] <= 60_000
    return engine


def test_the_line_is_bounded_and_an_id_cannot_fill_it() -> None:
    """Duty engine-1: overload is answered, with a time to come back, and by the one who makes it."""
    engine = overloaded(1)
    flood, quiet = engine.of("flood"), engine.of("quiet")
    assert sum(story.is_refused for story in flood) > 300
    assert sum(story.is_refused for story in quiet) <= 0.02 * len(quiet)
    for story in flood:
        assert story.final is not None
        if story.is_refused:
            assert story.final.error_code == "server_is_overloaded"
            assert story.final.retry_after_s is not None
    assert engine.loop._scheduler.num_refused == sum(story.is_refused for story in engine.of(""))


def test_retry_after_is_about_the_time_that_the_line_takes() -> None:
    """Compared with how long those waited who were let in at about the same time."""
    engine = overloaded(2)
    waits, told = [], []
    for story in engine.of("flood"):
        if 10.0 < story.arrived_s < 40.0:
            if story.is_refused and story.final is not None and story.final.retry_after_s is not None:
                told.append(story.final.retry_after_s)
            elif not story.is_refused:
                waits.append(story.ttft_s)
    waits.sort()
    told.sort()
    assert 0.5 < told[len(told) // 2] / waits[len(waits) // 2] < 2.0


@pytest.mark.parametrize("rate", [10.0, 20.0, 60.0])
def test_the_first_token_comes_about_when_predicted(rate: float) -> None:
    """Duty engine-12: predicted time to the first token and sustainable rate, from idle to overloaded."""
    rng = random.Random(11)
    engine = Virtual(settings(max_num_seqs=64))
    predictions: dict[str, float] = {}
    rates = []

    def look() -> None:
        stats = engine.loop._load.stats()
        rates.append(stats.sustainable_rps)
        for id in engine.stories.keys() - predictions.keys():
            predictions[id] = stats.predicted_ttft_s

    engine.on_turn = look
    chats = poisson(rng, rate, 30.0, lambda n: request(f"r{n}", rng.randint(400, 1200), rng.randint(50, 200)))
    engine.arrive(chats)
    engine.run()
    late = [story for story in engine.of("r") if story.arrived_s > 10.0]
    told = sum(predictions[story.message.request_id] for story in late) / len(late)
    took = sum(story.ttft_s for story in late) / len(late)
    print("told", told, "took", took, "sustainable", rates[-1])
    assert 0.5 < told / took < 2.0
    assert 17.0 < rates[-1] < 32.0, "what the engine does with 64 rows"


def test_who_waits_too_long_is_told_so() -> None:
    engine = Virtual(settings(max_num_seqs=1, queue_timeout_s=2.0))
    engine.arrive([(0.0, request("first", 100, 1000)), (0.5, request("second", 100, 5))])
    engine.run()
    (second,) = engine.of("second")
    assert second.is_refused
    assert 2.5 <= second.ended_s < 2.6
    assert engine.of("first")[0].token_times[-1] > 5.0


def test_tables_return_to_what_they_were_after_varied_requests() -> None:
    """Ever new ids, salts, sizes, aborts: what is kept by id is let go."""
    rng, engine = random.Random(5), Virtual(settings(num_blocks=400, max_num_seqs=16, max_model_len=4000))
    most = [0]

    def look() -> None:
        scheduler = engine.loop._scheduler
        accounts = scheduler.waiting.num_accounts
        most[0] = max(most[0], accounts)
        assert accounts <= 2 * (len(scheduler.live) + 64)

    engine.on_turn = look

    def varied(number: int) -> AddRequest:
        named = f"t{number}" if rng.random() < 0.5 else f"t{rng.randrange(20)}"
        return request(
            f"r{number}",
            rng.randint(1, rng.choice([10, 60, 600])),
            rng.randint(1, rng.choice([2, 10])),
            fairness_id=named,
            request_class=rng.choice(["interactive", "batch"]),
            cache_salt=bytes([rng.randrange(5)]),
            max_kv_fraction=rng.choice([1.0, 0.9]),
        )

    engine.arrive(poisson(rng, 150.0, 20.0, varied))
    engine.run()
    scheduler = engine.loop._scheduler
    assert len(engine.of("r")) > 2500
    assert (scheduler.waiting.num_accounts, len(scheduler.holdings), len(scheduler.live)) == (0, 0, 0)
    assert scheduler.kv.pool.num_held == 0
    engine.loop.check_integrity()
    assert isinstance(scheduler.waiting._fresh[0], FairQueue)
