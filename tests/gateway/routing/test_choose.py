"""choose(): pure, complete, and good under chance."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gateway.ids import ReplicaId
from gateway.routing.choose import POLICIES, Ask, Candidate, choose


def candidates(*loads: int) -> list[Candidate]:
    return [Candidate(ReplicaId(f"r{number}"), load) for number, load in enumerate(loads)]


def ask(seed: int, turn: int = 0) -> Ask:
    return Ask(turn, random.Random(seed).randrange)


@given(
    st.sampled_from(sorted(POLICIES)),
    st.lists(st.integers(0, 9), max_size=6),
    st.integers(),
    st.integers(0, 99),
)
def test_every_policy_orders_every_candidate_once(
    policy: str, loads: list[int], seed: int, turn: int
) -> None:
    given_ = candidates(*loads)
    ordered = choose(policy, given_, ask(seed, turn))
    assert sorted(ordered, key=lambda c: c.replica_id) == given_
    assert ordered == choose(policy, given_, ask(seed, turn))


@given(st.integers())
def test_of_two_the_less_loaded_is_first(seed: int) -> None:
    assert choose("least_loaded", candidates(3, 1), ask(seed))[0].load == 1


def test_the_most_loaded_is_never_first() -> None:
    firsts = Counter(choose("least_loaded", candidates(5, 0, 1, 9), ask(seed))[0].load for seed in range(500))
    assert 9 not in firsts
    assert firsts.most_common(1)[0][0] == 0
    assert len(firsts) > 1, "several gateways with the same news would all ask the same replica"


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
