"""Promised times between tokens: how many prompt tokens, and how many answers of the lower class, a step may hold.

Used by `scheduler` while a running answer has such a promise. The predicted step keeps the tightest of them, but
one row of a page and a tenth of the step's time are left to prompts whatever was promised, and as much to the
lower class's answers, else promises could stop everything else. Decides; `scheduler` carries out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.request import Request
from engine.core.steptime import StepSize, StepTimes

FLOOR = 0.1
"""Part of a step's time that promises leave to what they would keep out."""
_AIM = 0.95
"""Steps vary: what is aimed at, as a part of the promise."""
_UNKNOWN = 8
"""Before any step was measured a step holds one so many-th of the budget."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What one step may hold."""

    num_prompt_tokens: int
    num_lower: int | None
    """Answers of the lower class; None: all."""
    is_tight: bool
    """The answers alone take all the time that was promised: nobody of the lower class should join them."""


def tightest(answers: Sequence[tuple[Request, int]]) -> float | None:
    """The shortest promised time between tokens among the running answers, in seconds."""
    return min([request.tpot_s for request, _ in answers if request.tpot_s is not None], default=None)


def keep(
    promise_s: float,
    times: StepTimes,
    answers: Sequence[tuple[Request, int]],
    position: int,
    *,
    block_size: int,
    budget: int,
) -> Pace:
    """`answers`: (request, position after the step); `position`: where the next prompt to read stands."""
    if not times.is_known:
        return Pace(max(block_size, budget // _UNKNOWN), None, is_tight=False)
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
    return Pace(max(block_size, times.prompt_tokens_in(left_s, position)), num_lower, is_tight)


def in_turn(answers: Sequence[tuple[Request, int]], num_lower: int, step: int) -> list[tuple[Request, int]]:
    """The answers with only so many of the lower class: other ones at every step."""
    lower = [answer for answer in answers if answer[0].class_rank > 0]
    first = step * num_lower % len(lower) if lower else 0
    kept = {id(request) for request, _ in [*lower[first:], *lower[:first]][:num_lower]}
    return [answer for answer in answers if answer[0].class_rank == 0 or id(answer[0]) in kept]
