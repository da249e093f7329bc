"""choose(): pure, complete, and good under chance."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gateway.ids import ReplicaId
from gateway.routing.choose import LOAD_GAP, STRATEGIES, Ask, Candidate, choose


def caching(name: str, load: int, matched: int = 0, queued: int = 0, speed: float = 1000.0) -> Candidate:
    return Candidate(ReplicaId(name), load, 0.0, matched, queued, speed)


def candidates(*loads: int) -> list[Candidate]:
    return [Candidate(ReplicaId(f"r{number}"), load) for number, load in enumerate(loads)]


def ask(seed: int, turn: int = 0, prompt_bytes: int = 8192, key: bytes = b"") -> Ask:
    return Ask(turn, random.Random(seed).randrange, prompt_bytes, key)


@given(
    st.sampled_from(sorted(STRATEGIES)),
    st.lists(st.integers(0, 9), max_size=6),
    st.integers(),
    st.integers(0, 99),
)
def test_every_strategy_orders_every_candidate_once(
    strategy: str, loads: list[int], seed: int, turn: int
) -> None:
    given_ = candidates(*loads)
    ordered = choose(strategy, given_, ask(seed, turn))
    assert sorted(ordered, key=lambda c: c.replica_id) == given_
    assert ordered == choose(strategy, given_, ask(seed, turn))


@given(st.integers())
def test_of_two_the_less_loaded_is_first(seed: int) -> None:
    assert choose("least_loaded", candidates(3, 1), ask(seed))[0].load == 1


def test_the_least_loaded_is_first_and_of_near_ones_the_better_of_two() -> None:
    assert [c.load for c in choose("least_loaded", candidates(5, 0, 1, 9), ask(1))] == [0, 1, 5, 9]
    firsts = Counter(
        choose("least_loaded", candidates(44, 40, 41, 42, 90), ask(seed))[0].load for seed in range(500)
    )
    assert set(firsts) == {40, 41, 42}, "several gateways with the same news would all ask the same replica"
    assert firsts.most_common(1)[0][0] == 40


def test_kv_usage_breaks_ties() -> None:
    full = Candidate(ReplicaId("a"), 2, kv_usage=0.9)
    free = Candidate(ReplicaId("b"), 2, kv_usage=0.1)
    assert choose("least_loaded", [full, free], ask(1))[0] is free


def test_round_robin_takes_turns_whatever_the_order() -> None:
    given_ = candidates(0, 0, 0)
    firsts = [
        choose("round_robin", given_[turn % 2 :] + given_[: turn % 2], ask(0, turn))[0] for turn in range(6)
    ]
    assert [c.replica_id for c in firsts] == ["r0", "r1", "r2"] * 2


# -- prefix -----------------------------------------------------------------------------------------------


def first(*given_: Candidate, prompt_bytes: int = 8192) -> set[str]:
    """Who is first, over many draws."""
    return {
        choose("prefix", given_, ask(seed, prompt_bytes=prompt_bytes))[0].replica_id for seed in range(50)
    }


def test_a_cached_beginning_is_worth_a_few_requests() -> None:
    assert first(caching("a", 0), caching("b", 5, matched=8000)) == {"b"}


def test_a_miss_is_for_the_least_loaded() -> None:
    """Duty H40: nobody has the beginning: the least loaded, whatever else is measured of it."""
    assert first(caching("a", 1, speed=10.0), caching("b", 2), caching("c", 2)) == {"a"}


def test_beyond_the_load_gap_a_cache_counts_for_nothing() -> None:
    assert first(caching("a", 0), caching("b", LOAD_GAP, matched=8192)) == {"b"}
    assert first(caching("a", 0), caching("b", LOAD_GAP + 1, matched=8192)) == {"a"}
    assert first(caching("a", 40), caching("b", 60, matched=8192)) == {"b"}, "half as many again"
    assert first(caching("a", 40), caching("b", 61, matched=8192)) == {"a"}
    far = caching("b", LOAD_GAP + 1, matched=8192)
    assert first(caching("a", 0, speed=10.0), far, caching("c", 1)) == {"a"}, "as if nobody had it"
    assert first(caching("a", 0, matched=1024), far) == {"a"}, (
        "not even when somebody near has a little of it"
    )


def test_a_trifle_of_a_beginning_does_not_pile_requests_up() -> None:
    """Duty engine-13: A system prompt that all share must not lead all to the replica that was first."""
    assert first(caching("a", 0), caching("b", 6, matched=2048)) == {"a"}


def test_queued_prompts_and_speed_are_waited_for() -> None:
    assert first(caching("a", 1, matched=8000, queued=20_000), caching("b", 1)) == {"b"}
    assert first(caching("a", 1, matched=4096, speed=100.0), caching("b", 1, speed=1000.0)) == {"b"}


def test_equal_expectations_are_decided_by_two_draws() -> None:
    equal = [caching(name, load, matched=8000) for name, load in (("a", 1), ("b", 1), ("c", 1))]
    assert first(*equal) == {"a", "b", "c"}
    assert first(caching("a", 3, matched=8192), caching("b", 1, matched=8192), prompt_bytes=8192) == {"b"}


# -- consistent hash --------------------------------------------------------------------------------------


def home(key: bytes, *given_: Candidate) -> str:
    return choose("consistent_hash", given_, ask(1, key=key))[0].replica_id


def test_who_belongs_together_stays_together_whoever_leaves() -> None:
    everybody = [caching(f"r{number}", number) for number in range(6)]
    keys = [f"key {number}".encode() for number in range(200)]
    homes = {key: home(key, *everybody) for key in keys}
    assert min(Counter(homes.values()).values()) > 10
    for key in keys:
        assert home(key, *reversed(everybody)) == homes[key]
        others = [candidate for candidate in everybody if candidate.replica_id != "r3"]
        if homes[key] != "r3":
            assert home(key, *others) == homes[key]


def test_nobody_gets_far_more_than_its_share() -> None:
    loads = dict.fromkeys(("a", "b", "c"), 0)
    for _ in range(90):
        loads[home(b"one key", *(caching(name, load) for name, load in loads.items()))] += 1
    assert max(loads.values()) <= 1.25 * 30 + 1
