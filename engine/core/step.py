"""One step under construction, then in flight: the runner's schedule beside the core's own requests.

Filled by `scheduler`, launched by `loop`, read by `output` when its result arrives. Rows may have new
owners by then, so a step remembers its requests itself. Knows no policy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.core.contract import BlockAppend, PageMove, RowInit, RowWork, ScheduleOutput
from engine.core.fairness import INPUT_WEIGHT, OUTPUT_WEIGHT
from engine.core.request import Request

if TYPE_CHECKING:
    from engine.core.pace import Allowance

Moves = tuple[tuple[PageMove, ...], tuple[PageMove, ...]]


@dataclass(slots=True)
class StepPlan:
    """What the scheduler has handed out so far."""

    budget: int
    """Tokens left."""
    prompts: Allowance
    """Time left to prompts."""
    work: list[tuple[int, int, RowWork, Request]] = field(default_factory=list)
    """(num_tokens, row, …): sorts into the contract's order; a row occurs once."""
    new_rows: list[RowInit] = field(default_factory=list)
    appends: list[BlockAppend] = field(default_factory=list)
    admitted: list[Request] = field(default_factory=list)
    unserved: list[Request] = field(default_factory=list)
    """Prompts, in order, that left room for requests in line: what those do not take is theirs."""
    is_tight: bool = False
    """A promise leaves no time for another answer of the lower class."""

    def add(self, request: Request, start: int, num_tokens: int, samples: bool) -> None:
        assert 0 < num_tokens <= self.budget
        self.budget -= num_tokens
        row = request.row
        self.work.append((num_tokens, row, RowWork(row, start, num_tokens, samples), request))

    def part_of_lower_class(self) -> float:
        """Of the step's cost, as `fairness` counts it."""
        lower = [num_tokens for num_tokens, _, _, request in self.work if request.class_rank]
        if not lower:
            return 0.0
        return _cost(lower) / _cost([item[0] for item in self.work])

    def take_back(self, request: Request) -> RowWork | None:
        """Undo the request's entry, to make a larger one."""
        for index, (num_tokens, _, work, owner) in enumerate(self.work):
            if owner is request:
                del self.work[index]
                self.budget += num_tokens
                self.prompts.give_back(work.start, num_tokens)
                return work
        return None


def _cost(counts: list[int]) -> float:
    """Of rows with so many tokens each."""
    num_answers = counts.count(1)
    return OUTPUT_WEIGHT * num_answers + INPUT_WEIGHT * (sum(counts) - num_answers)


@dataclass(frozen=True, slots=True)
class Step:
    """A complete step. `requests[i]` owned the row of `schedule.work[i]`."""

    schedule: ScheduleOutput
    requests: list[Request]
    num_tokens: int
    ignored_rows: set[int] = field(default_factory=set)
    """Rows whose result is worthless since an earlier step failed under them."""

    @classmethod
    def from_plan(cls, number: int, plan: StepPlan, freed_rows: list[int], moves: Moves = ((), ())) -> Step:
        """`moves`: pages to copy to the host, and from it."""
        plan.work.sort()
        schedule = ScheduleOutput(
            step=number,
            work=tuple([item[2] for item in plan.work]),
            freed_rows=tuple(freed_rows),
            new_rows=tuple(plan.new_rows),
            appends=tuple(plan.appends),
            offloads=moves[0],
            restores=moves[1],
        )
        return cls(schedule, [item[3] for item in plan.work], sum([item[0] for item in plan.work]))

    def ignore(self, request: Request) -> None:
        for work, owner in zip(self.schedule.work, self.requests, strict=True):
            if owner is request:
                self.ignored_rows.add(work.row)
