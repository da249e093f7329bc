"""The choices among running requests, apart from the mechanism that carries them out in `scheduler`.

Pure functions over request state: whom to preempt, which prompt to continue first, how much room to leave.
Classes and recompute preemption decide now; time promises and swapping join here. The order of admission
is `waiting` and `fairness`.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.request import Request


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
