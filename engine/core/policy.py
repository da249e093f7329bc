"""The choices among running requests, apart from the mechanism that carries them out in `scheduler`.

Pure functions over request state: whom to preempt, which prompt to continue first, how much room to leave.
Classes and recompute preemption decide now; time promises and swapping join here. The order of admission
is `waiting` and `fairness`.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.config import CoreConfig
from engine.core.request import Request

_LEAST_PROMPT_SHARE = 4
"""One part in so many of `max_num_mixed_tokens` is for prompts, however many answers run."""


def step_budget(num_answers: int, config: CoreConfig) -> int:
    """Tokens of a step in which `num_answers` rows go on answering.

    Up to some size a step takes as long as reading the weights does, so prompt tokens beside answers are almost
    free, while a large prompt step makes every answer wait and gathers arrivals into waves. Alone, prompts get all.
    """
    most, mixed = config.max_num_batched_tokens, config.max_num_mixed_tokens
    if num_answers == 0 or mixed is None:
        return most
    return min(most, max(mixed, num_answers + mixed // _LEAST_PROMPT_SHARE))


def choose_victim(running: Iterable[Request]) -> Request:
    """Lowest class, then least computed work, then last come. The request with the most work of the
    highest class is never chosen while another runs, so something always gets to its end."""
    return max(running, key=lambda request: (request.class_rank, -request.num_computed, request.sequence))


def seniority(request: Request) -> tuple[int, int]:
    """Sort key among running requests: class, then arrival."""
    return request.class_rank, request.sequence


def prompt_order(prompts: Iterable[Request]) -> list[Request]:
    """In which order unfinished prompts share what the answers leave of the budget."""
    return sorted(prompts, key=seniority)


def headroom_pages(num_running: int, num_groups: int) -> int:
    """Free pages that an admission must leave: every running request can take its next page, else the
    newcomer would be preempted at once and its prompt computed twice."""
    return num_running * num_groups
