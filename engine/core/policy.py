"""The choices among running requests, apart from the mechanism that carries them out in `scheduler`.

Pure functions over request state: whom to preempt, how large a step is, how much room to leave. The order of
admission is `waiting` and `fairness`, that of prompts `turns`; promised times are `pace`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from engine.core.config import CoreConfig
from engine.core.request import Request


def step_budget(num_answers: int, num_prompt_tokens: int, config: CoreConfig) -> int:
    """Tokens of the next step, in which `num_answers` rows go on answering while `num_prompt_tokens` wait.

    A small step takes as long as reading the weights does, so some prompt tokens beside answers are almost free; a
    large one is efficient only at some sizes, and the larger it is the longer every answer waits for it, and the
    more requests it sends on their way in one wave. So: what is nearly free, or, once that much waits, a multiple
    of `max_num_mixed_tokens` with at least five eighths of one for prompts. Prompts alone get the whole budget.
    """
    most, mixed = config.max_num_batched_tokens, config.max_num_mixed_tokens
    if num_answers == 0 or mixed is None:
        return most
    if num_prompt_tokens < mixed:
        return min(most, max(3 * mixed // 8, num_answers + mixed // 8))
    return min(most, math.ceil((num_answers + 5 * mixed // 8) / mixed) * mixed)


PASSED_OVER_S = 1.0
"""How long others may go before a request that does not fit; then room is kept for it."""
MOST_PASSED_OVER = 16
"""Requests in line that are tried in one step."""


MOST_PREEMPTED = 3
"""So often a request may lose what it computed. Then it stays, one of its kind at a time: under a load that never ends
it would be begun for ever, and never be done."""


def stays(running: Iterable[Request]) -> Request | None:
    """The one that was preempted often enough; of several the one that came first."""
    often = [request for request in running if request.num_preempted >= MOST_PREEMPTED]
    return min(often, key=seniority, default=None)


def persistence(request: Request) -> tuple[int, int, float, int]:
    """Sort key: who is preempted sooner comes first. Lowest class, then least computed work, then last come."""
    return -request.class_rank, request.num_computed, -request.arrival_s, -request.sequence


def choose_victim(running: Iterable[Request]) -> Request:
    """The request with the most work of the highest class is never chosen while another runs, so something
    always gets to its end; nor is the one that `stays`."""
    among = list(running)
    kept = stays(among)
    return min((request for request in among if request is not kept), key=persistence, default=among[0])


def seniority(request: Request) -> tuple[int, tuple[float, int]]:
    """Sort key among running requests: class, then arrival."""
    return request.class_rank, request.arrival


def affordable(
    wants: Iterable[tuple[Request, int]], num_missing: Callable[[Request, int], int], num_free: int
) -> list[tuple[Request, int]]:
    """Those of the requests, seniors first, that `num_free` pages are enough for."""
    ready = []
    for request, end in sorted(wants, key=lambda want: seniority(want[0])):
        missing = num_missing(request, end)
        if missing <= num_free:
            num_free -= missing
            ready.append((request, end))
    return ready


def headroom_pages(num_running: int, num_groups: int) -> int:
    """Free pages that an admission must leave: every running request can take its next page, else the
    newcomer would be preempted at once and its prompt computed twice."""
    return num_running * num_groups
