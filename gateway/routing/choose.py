"""choose(): candidates, loads, request → the order in which replicas are tried. Pure.

Randomness and the round-robin turn are arguments. Breakers, drains and health are decided before: whoever is
a candidate may be asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.ids import ReplicaId

__all__ = ["POLICIES", "Ask", "Candidate", "Policy", "choose"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """`load` = requests that this replica has to share its time among, as far as this gateway knows."""

    replica_id: ReplicaId
    load: int
    kv_usage: float = 0.0


@dataclass(frozen=True, slots=True)
class Ask:
    """What a policy may look at besides the candidates: the request, and chance."""

    turn: int
    draw: Callable[[int], int]
    """`draw(n)` is a random integer in [0, n)."""


Policy = Callable[[Sequence[Candidate], Ask], list[Candidate]]


def choose(policy: str, candidates: Sequence[Candidate], ask: Ask) -> list[Candidate]:
    """Every candidate once, best first. An unknown policy name is a bug: the admin API knows the names."""
    if len(candidates) < 2:
        return list(candidates)
    ordered = POLICIES[policy](candidates, ask)
    assert len(ordered) == len(candidates), "a policy orders, it does not drop"
    return ordered


def least_loaded(candidates: Sequence[Candidate], ask: Ask) -> list[Candidate]:
    """The better of two random replicas first (several gateways with equal news must not herd), then by load."""
    first = ask.draw(len(candidates))
    second = (first + 1 + ask.draw(len(candidates) - 1)) % len(candidates)
    best = min(candidates[first], candidates[second], key=_busy)
    return [best, *sorted((c for c in candidates if c is not best), key=_busy)]


def round_robin(candidates: Sequence[Candidate], ask: Ask) -> list[Candidate]:
    ordered = sorted(candidates, key=lambda candidate: candidate.replica_id)
    start = ask.turn % len(ordered)
    return ordered[start:] + ordered[:start]


def _busy(candidate: Candidate) -> tuple[int, float]:
    return candidate.load, candidate.kv_usage


POLICIES: Final[Mapping[str, Policy]] = {
    "least_loaded": least_loaded,
    "round_robin": round_robin,
}
