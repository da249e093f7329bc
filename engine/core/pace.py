"""Promised times between tokens: how long prompts may take of a step, and how many answers of the lower class it holds.

Used by `scheduler` while a running answer has such a promise. The predicted step keeps the tightest of them, but
one row of a page and a tenth of the step's time are left to prompts whatever was promised, and as much to the
lower class's answers, else promises could stop everything else. Decides; `scheduler` carries out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.config import CoreConfig
from engine.core.request import Request
from engine.core.step import StepPlan
from engine.core.steptime import StepSize, StepTimes

FLOOR = 0.1
"""Part of a step's time that promises leave to what they would keep out."""
_AIM = 0.95
"""Steps vary: what is aimed at, as a part of the promise."""
_UNKNOWN = 8
"""Before any step was measured a step holds one so many-th of the budget."""


class Allowance:
    """The time that prompts may take of one step. What a row takes depends on how far its own prompt is read, so it is
    counted row by row: one that sits the step out costs the others nothing."""

    __slots__ = ("_least", "_left_s", "_times")

    def __init__(self, times: StepTimes, seconds: float = math.inf, least: int = 0) -> None:
        """`least`: so many tokens may be read in any time."""
        self._times = times
        self._left_s = seconds
        self._least = least

    def room(self, position: int, most: int) -> int:
        """Tokens, at most `most`, that a prompt read up to `position` may go on by."""
        if self._left_s == math.inf:
            return most
        return min(most, max(self._least, self._times.prompt_tokens_in(self._left_s, position)))

    def take(self, position: int, num_tokens: int) -> None:
        """A row that it was taken for reads so many."""
        self._left_s -= self._times.prompt_seconds(position, num_tokens)
        self._least -= num_tokens

    def give_back(self, position: int, num_tokens: int) -> None:
        self._left_s += self._times.prompt_seconds(position, num_tokens)
        self._least += num_tokens


@dataclass(frozen=True, slots=True)
class Pace:
    """What one step may hold."""

    prompts: Allowance
    num_lower: int | None
    """Answers of the lower class; None: all."""
    is_tight: bool
    """The answers alone take all the time that was promised: nobody of the lower class should join them."""


def cap(
    plan: StepPlan,
    answers: list[tuple[Request, int]],
    times: StepTimes,
    config: CoreConfig,
    *,
    step: int,
) -> list[tuple[Request, int]]:
    """The answers of a step that keeps the tightest promise among them; the plan is told what time prompts have."""
    promise_s = tightest(answers)
    if promise_s is None:
        return answers
    block_size, budget = config.layout.block_size, config.max_num_batched_tokens
    kept = keep(promise_s, times, answers, block_size=block_size, budget=budget)
    plan.prompts, plan.is_tight = kept.prompts, kept.is_tight
    return answers if kept.num_lower is None else in_turn(answers, kept.num_lower, step)


def tightest(answers: Sequence[tuple[Request, int]]) -> float | None:
    """The shortest promised time between tokens among the running answers, in seconds."""
    return min([request.tpot_s for request, _ in answers if request.tpot_s is not None], default=None)


def keep(
    promise_s: float,
    times: StepTimes,
    answers: Sequence[tuple[Request, int]],
    *,
    block_size: int,
    budget: int,
) -> Pace:
    """`answers`: (request, position after the step)."""
    if not times.is_known:
        return Pace(Allowance(times, 0.0, max(block_size, budget // _UNKNOWN)), None, is_tight=False)
    keys = sum([end for _, end in answers])
    base_s = times.predict(StepSize(len(answers), len(answers), keys))
    aim_s, num_lower = _AIM * promise_s, None
    is_tight = base_s > aim_s
    lower = [end for request, end in answers if request.class_rank] if is_tight else []
    if lower:
        row_s = max(1e-9, times.row_seconds(sum(lower) / len(lower)))
        floor = math.ceil(FLOOR * base_s / row_s)
        num_lower = min(len(lower), max(1, floor, len(lower) - math.ceil((base_s - aim_s) / row_s)))
        base_s -= (len(lower) - num_lower) * row_s
    left_s = max(aim_s - base_s, base_s * FLOOR / (1 - FLOOR))
    return Pace(Allowance(times, left_s, block_size), num_lower, is_tight)


def in_turn(answers: Sequence[tuple[Request, int]], num_lower: int, step: int) -> list[tuple[Request, int]]:
    """The answers with only so many of the lower class: other ones at every step."""
    lower = [answer for answer in answers if answer[0].class_rank > 0]
    first = step * num_lower % len(lower) if lower else 0
    kept = {id(request) for request, _ in [*lower[first:], *lower[:first]][:num_lower]}
    return [answer for answer in answers if answer[0].class_rank == 0 or id(answer[0]) in kept]
