"""The sweep: one server or two, over rates from light load to too much, alternated at every rate.

Place: the command → here → `load` per server and rate → `results`. With two servers the one that went second goes first
at the next rate, so that what drifts on the machine between them hits both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.bench.client import Target
from engine.bench.stats import Objectives, Outcome
from engine.bench.workload import arrivals
from workbench.bench.datasets import Dataset
from workbench.bench.errors import BenchError
from workbench.bench.load import Due, run_load
from workbench.bench.results import Point, Result, Run, point_of

__all__ = ["Objectives", "Server", "Sweep", "Target", "Watcher", "conversations_at", "run_sweep"]

SHARES = (0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 1.0, 1.15)
"""Of the rate that a server managed when it was never idle: the rates of a sweep that names none."""
_APART = 1_000_003
"""Conversations of one rate lie this far from those of the next: none is in a prefix cache from before."""
_WARM_UPS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What is to be measured."""

    dataset: Dataset
    objectives: Objectives
    rates: tuple[float, ...] = ()
    """Requests a second; none: found from what the first server manages."""
    duration_s: float = 30.0
    """How long requests arrive at each rate."""
    requests_min: int = 20
    """At each rate, however low."""
    concurrency: int = 32
    """Conversations at once while the rates are looked for."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Server:
    label: str
    target: Target


class Watcher:
    """Hears how far a sweep is; this one does not listen."""

    def begins(self, what: str, requests: int) -> None:
        """The next `requests` requests are of this part."""

    def done(self, requests: int) -> None:
        """So many more have ended."""


async def run_sweep(
    sweep: Sweep, servers: Sequence[Server], settings: Mapping[str, Any], watcher: Watcher
) -> Result:
    """Raises `BenchError` if a server answers nothing at all."""
    for server in servers:
        await _warm_up(sweep, server)
    rates = sorted(sweep.rates) or await _find_rates(sweep, servers[0], watcher)
    points: dict[str, list[Point]] = {server.label: [] for server in servers}
    for number, rate in enumerate(rates):
        for server in servers if number % 2 == 0 else reversed(servers):
            outcomes = await _at_rate(sweep, server, number, rate, watcher)
            points[server.label].append(point_of(rate, outcomes, sweep.objectives))
    runs = tuple(Run(s.label, s.target.base_url, s.target.model, tuple(points[s.label])) for s in servers)
    return Result(settings, sweep.objectives, runs, tuple(_notes(sweep, rates, runs)))


def conversations_at(sweep: Sweep, rate: float) -> int:
    requests = max(sweep.requests_min, math.ceil(rate * sweep.duration_s))
    return max(1, round(requests / sweep.dataset.turns_mean))


async def _at_rate(sweep: Sweep, server: Server, number: int, rate: float, watcher: Watcher) -> list[Outcome]:
    count = conversations_at(sweep, rate)
    due_s = arrivals(count, rate / sweep.dataset.turns_mean, f"{sweep.seed} {number}")
    load = [
        Due(sweep.dataset.conversation((number + 1) * _APART + index), at_s)
        for index, at_s in enumerate(due_s)
    ]
    return await _measured(server, load, f"{server.label} at {rate:.3g}/s", None, watcher)


async def _warm_up(sweep: Sweep, server: Server) -> None:
    load = [Due(sweep.dataset.conversation(index), 0.0) for index in range(_WARM_UPS)]
    outcomes = await run_load(server.target, load, concurrency=1)
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if len(errors) == len(outcomes):
        raise BenchError(f"{server.target.base_url} answers no request of this data set: {errors[0]}")


async def _find_rates(sweep: Sweep, server: Server, watcher: Watcher) -> list[float]:
    """Shares of the rate at which a closed loop of `concurrency` conversations is answered."""
    load = [
        Due(sweep.dataset.conversation(_WARM_UPS + index), 0.0)
        for index in range(max(sweep.requests_min, 2 * sweep.concurrency))
    ]
    outcomes = await _measured(server, load, f"{server.label}, never idle", sweep.concurrency, watcher)
    managed = point_of(0.0, outcomes, sweep.objectives).report.requests_per_s
    if not managed:
        raise BenchError(f"{server.target.base_url} answered nothing under load: {outcomes[0].error}")
    return [float(f"{managed * share:.3g}") for share in SHARES]


async def _measured(
    server: Server, load: Sequence[Due], what: str, concurrency: int | None, watcher: Watcher
) -> list[Outcome]:
    watcher.begins(what, sum(len(due.conversation.turns) for due in load))
    hear: Callable[[int], None] = watcher.done
    return await run_load(server.target, load, concurrency, hear)


def _notes(sweep: Sweep, rates: Sequence[float], runs: Sequence[Run]) -> list[str]:
    notes = []
    size, sent = sweep.dataset.size, sum(conversations_at(sweep, rate) for rate in rates)
    if size is not None and size < sent:
        notes.append(
            f"the file's {size} conversations were sent {sent} times in all: prefix caches knew them"
        )
    for run in runs:
        failed = sum(point.report.failed for point in run.points)
        if failed:
            first = next(p.report.first_error for p in run.points if p.report.first_error is not None)
            notes.append(f"{run.label}: {failed} requests failed, the first with {first}")
    return notes
