"""Who gives up rows and pages for others: the lower class for the upper one, an id beyond its share for itself.

Decides for `scheduler`, which preempts. Knows no budget and no time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from engine.core import policy
from engine.core.floor import SHARE
from engine.core.kv import KVManager
from engine.core.request import Request
from engine.core.rows import Rows
from engine.core.step import StepPlan
from engine.core.waiting import WaitingLine


def to_upper_class(
    rows: Rows, waiting: WaitingLine, kv: KVManager, leaving: Iterable[Request], *, has_enough: bool
) -> Iterator[tuple[Request, list[Request]]]:
    """(request of the upper class that waits, those of the lower class to preempt for it), where that is enough
    to admit it. `leaving`: preempted or finished before, their pages are coming. `has_enough`: the lower class had
    its share of the time; else it keeps its share of rows and pages."""
    running = [request for request in rows.running() if request.class_rank]
    kept = policy.stays(running)
    lower = [request for request in running if request.num_pending > 0 and request is not kept]
    lower.sort(key=policy.persistence)
    if not has_enough:
        lower = lower[: _num_beyond_share(lower, running, len(rows.seats), kv)]
    if not lower:
        return
    num_rows = rows.num_free
    num_pages = kv.pool.num_free + kv.num_exclusive(leaving)
    num_pages -= policy.headroom_pages(rows.num_running, kv.num_groups)
    for request in list(islice(waiting.candidates(), policy.MOST_PASSED_OVER)):
        if request.class_rank or request.num_steps_in_flight > 0:
            return
        wanted = kv.num_free_wanted(request, kv.match(request))
        num_victims = 0
        while (num_rows < 1 or num_pages < wanted) and num_victims < len(lower):
            num_rows += 1
            num_pages += kv.num_exclusive([lower[num_victims]]) + kv.num_groups
            num_victims += 1
        if num_rows < 1 or num_pages < wanted:
            return
        victims, lower = lower[:num_victims], lower[num_victims:]
        if victims:
            yield request, victims
        num_rows, num_pages = num_rows - 1, num_pages - wanted - kv.num_groups


def may_hold_room(request: Request, kv: KVManager) -> bool:
    """Whether others wait while pages become free for it: of the lower class, for its share of them and not more."""
    return request.class_rank == 0 or request.pages_wanted <= SHARE * kv.pool.num_blocks


def lower_class_waits(rows: Rows, waiting: WaitingLine, plan: StepPlan) -> bool:
    """Whether some of the lower class is in line, or has a prompt to read or a row without work in this step."""
    if waiting.num_of_class(1):
        return True
    busy = {item[1] for item in plan.work}
    return any(
        request.class_rank and (request.row not in busy or request.num_pending > 1)
        for request in rows.running()
    )


def to_own_share(running: Sequence[Request], kv: KVManager, leaving: Iterable[Request]) -> list[Request]:
    """Of every id that holds more pages than it may and has more than one request running, the one to preempt;
    unless pages of the id are coming back already."""
    coming = {request.fairness_id for request in leaving}
    greedy: dict[str, list[Request]] = {}
    for request in running:
        holding = request.holding
        if holding is None or holding.num_running < 2 or request.fairness_id in coming:
            continue
        if holding.num_pages > kv.share_pages(request):
            greedy.setdefault(request.fairness_id, []).append(request)
    pending = [[each for each in requests if each.num_pending > 0] for requests in greedy.values()]
    return [policy.choose_victim(requests) for requests in pending if requests]


def may_pass(request: Request, awaited: Request, kv: KVManager) -> bool:
    """Whether the request may be admitted though room is kept for another: its id would still hold less of the
    pool than the other's, which therefore is not starving."""
    mine, other = request.holding, awaited.holding
    if mine is None or other is None or mine is other:
        return False
    return mine.num_pages + kv.peak_pages(request.num_tokens) <= other.num_pages


def _num_beyond_share(
    victims: Sequence[Request], running: Sequence[Request], num_seats: int, kv: KVManager
) -> int:
    """How many of them to preempt until the lower class, which runs `running`, has its share of rows and pages."""
    num_rows, num_pages = len(running), kv.num_in_tables(running)
    for place, request in enumerate(victims):
        if num_rows <= SHARE * num_seats and num_pages <= SHARE * kv.pool.num_blocks:
            return place
        num_rows, num_pages = num_rows - 1, num_pages - kv.num_in_tables([request])
    return len(victims)
