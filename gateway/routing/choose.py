"""choose(): candidates, loads, request → the order in which replicas are tried. Pure.

Randomness and the round-robin turn are arguments. Breakers, drains and health are decided before: whoever is
a candidate may be asked. Bytes stand for tokens: there is no tokenizer here, and only ratios count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from gateway.ids import ReplicaId

__all__ = ["STRATEGIES", "Ask", "Candidate", "Strategy", "choose", "expected_ttft_s"]

LOAD_GAP = 8
"""Requests more than the least loaded one has: beyond, a cache is worth no wait. Half as many again, if that is more."""
SHARED_BY = 16.0
"""So many running requests double the time that a prompt takes: they share the steps."""
TIE_SHARE = 0.1
"""Expected times that differ by less are the same: the measure is not better than that."""
BOUND = 1.25
"""`consistent_hash`: nobody gets more than this times the mean load, unless all have little to do."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """`load` = requests that this replica has to share its time among, as far as this gateway knows."""

    replica_id: ReplicaId
    load: int
    kv_usage: float = 0.0
    matched_bytes: int = 0
    """Of the prompt, likely in its cache."""
    queued_bytes: int = 0
    """Of prompts that wait there for their first token."""
    bytes_per_s: float = 1.0
    """Of prompt, as measured."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a strategy may look at besides the candidates: the request, and chance."""

    turn: int
    draw: Callable[[int], int]
    """`draw(n)` is a random integer in [0, n)."""
    prompt_bytes: int = 0
    key: bytes = b""
    """Who belongs together, for `consistent_hash`."""


Strategy = Callable[[Sequence[Candidate], Ask], list[Candidate]]


def choose(strategy: str, candidates: Sequence[Candidate], ask: Ask) -> list[Candidate]:
    """Every candidate once, best first. An unknown strategy is a bug: the pool's table knows the names."""
    if len(candidates) < 2:
        return list(candidates)
    ordered = STRATEGIES[strategy](candidates, ask)
    assert len(ordered) == len(candidates), "a strategy orders, it does not drop"
    return ordered


def prefix(candidates: Sequence[Candidate], ask: Ask) -> list[Candidate]:
    """The soonest first token, counting what is cached; nobody has any of it, or only those who have too much to do:
    the least loaded."""
    lowest = min(candidate.load for candidate in candidates)
    highest = lowest + max(LOAD_GAP, lowest // 2)
    if not any(candidate.matched_bytes and candidate.load <= highest for candidate in candidates):
        return least_loaded(candidates, ask)

    def soon(candidate: Candidate) -> float:
        cached = candidate.matched_bytes if candidate.load <= highest else 0
        return expected_ttft_s(candidate, ask.prompt_bytes - cached)

    ordered = sorted(candidates, key=soon)
    tied = [candidate for candidate in ordered if soon(candidate) <= soon(ordered[0]) * (1 + TIE_SHARE)]
    return _first(_better_of_two(tied, ask), ordered)


def least_loaded(candidates: Sequence[Candidate], ask: Ask) -> list[Candidate]:
    """The least loaded first. Loads that are known from reports are a little old: near ones count as the same, and the
    better of two of them is taken by chance, so that several gateways with equal news do not herd."""
    ordered = sorted(candidates, key=_busy)
    lowest = ordered[0].load
    tied = [candidate for candidate in ordered if candidate.load <= lowest + lowest * TIE_SHARE]
    return _first(_better_of_two(tied, ask), ordered)


def round_robin(candidates: Sequence[Candidate], ask: Ask) -> list[Candidate]:
    ordered = sorted(candidates, key=lambda candidate: candidate.replica_id)
    start = ask.turn % len(ordered)
    return ordered[start:] + ordered[:start]


def consistent_hash(candidates: Sequence[Candidate], ask: Ask) -> list[Candidate]:
    """Who belongs together meets at one replica, the same for every gateway, whoever comes or goes elsewhere; but
    those who have more than their share to do come last."""
    fair = (sum(candidate.load for candidate in candidates) + 1) / len(candidates)
    highest = max(BOUND * fair, LOAD_GAP)

    def rank(candidate: Candidate) -> tuple[bool, bytes]:
        lot = blake2b(candidate.replica_id.encode(), digest_size=8, key=ask.key[:64]).digest()
        return candidate.load + 1 > highest, lot

    return sorted(candidates, key=rank)


def expected_ttft_s(candidate: Candidate, uncached_bytes: int) -> float:
    """Everything that waits there and the part of the prompt that is new to it, at the replica's own speed, shared
    with what runs."""
    work = candidate.queued_bytes + max(uncached_bytes, 1)
    return work / candidate.bytes_per_s * (1 + candidate.load / SHARED_BY)


def _better_of_two(tied: Sequence[Candidate], ask: Ask) -> Candidate:
    if len(tied) == 1:
        return tied[0]
    first = ask.draw(len(tied))
    second = (first + 1 + ask.draw(len(tied) - 1)) % len(tied)
    return min(tied[first], tied[second], key=_busy)


def _first(best: Candidate, ordered: list[Candidate]) -> list[Candidate]:
    return [best, *(candidate for candidate in ordered if candidate is not best)]


def _busy(candidate: Candidate) -> tuple[int, float]:
    return candidate.load, candidate.kv_usage


STRATEGIES: Final[Mapping[str, Strategy]] = {
    "prefix": prefix,
    "least_loaded": least_loaded,
    "round_robin": round_robin,
    "consistent_hash": consistent_hash,
}
