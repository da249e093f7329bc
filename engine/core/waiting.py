"""The line before the runner's rows: bounded, ordered, with a deadline and a measured drain rate.

`scheduler` asks it who is next and tells it who left. Order: class, then preempted requests of the class,
then the fair choice between ids, then the deadline. When it is full, who takes less of it than another gets a
place of the other's, so that no id and no class can fill it. Policy only: knows no pages, rows or budget.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from itertools import chain, islice, takewhile

from engine.core.config import CoreConfig
from engine.core.fairness import Account, FairQueue, part_of_line, withdraw
from engine.core.request import CLASSES, Phase, Request

HALF_LIFE_S = 10.0
"""How fast the drain rate forgets."""
MOST_DISPLACED = 64
"""Requests that give up their places for one other; it takes their tokens' room."""
RETRY_AFTER_S = (1.0, 60.0)
"""Bounds of what a refused caller is told; the lower one also stands for "nothing measured yet"."""


class DrainMeter:
    """How fast requests leave the line, measured only while there is one."""

    def __init__(self) -> None:
        self._last_s: float | None = None
        self._had_line = False
        self._busy_s = 0.0
        self._requests = 0.0
        self._tokens = 0.0

    def observe(self, now: float, num_admitted: int, num_tokens: int, *, has_line: bool) -> None:
        """After each admission round: who left, and whether anybody still waits."""
        elapsed = now - (now if self._last_s is None else self._last_s)
        assert elapsed >= 0, "the clock is monotonic"
        keep = 0.5 ** (elapsed / HALF_LIFE_S)
        self._busy_s *= keep
        self._requests *= keep
        self._tokens *= keep
        if self._had_line:
            self._busy_s += elapsed
            self._requests += num_admitted
            self._tokens += num_tokens
        self._last_s, self._had_line = now, has_line

    def delay_s(self, num_requests: int, num_tokens: int) -> float:
        """Predicted time until a line of that length is gone: limited by rows or by prompt tokens."""
        if num_requests == 0:
            return 0.0
        if self._requests < 1e-9 or self._tokens < 1e-9:
            return RETRY_AFTER_S[0]
        return self._busy_s * max(num_requests / self._requests, num_tokens / self._tokens)

    def retry_after_s(self, num_requests: int, num_tokens: int) -> float:
        """What a refused caller is told of a line of that length."""
        least, most = RETRY_AFTER_S
        return min(most, max(least, self.delay_s(num_requests, num_tokens)))


class WaitingLine:
    """Every live request without a row is in here, exactly once."""

    def __init__(self, config: CoreConfig) -> None:
        self._config = config
        self._fresh = [FairQueue() for _ in CLASSES]
        self._preempted: list[list[Request]] = [[] for _ in CLASSES]
        self._num_requests = [0] * len(CLASSES)
        self._num_tokens = [0] * len(CLASSES)
        self._arrivals: list[Request] = []
        """Fresh requests of all classes in the order of arrival; some were held elsewhere since then."""
        self._drain = DrainMeter()

    @property
    def num_requests(self) -> int:
        return sum(self._num_requests)

    @property
    def num_tokens(self) -> int:
        return sum(self._num_tokens)

    def place_for(self, request: Request, num_free_rows: int) -> list[Request] | None:
        """Who must leave the line so that the request can join it; None if it cannot. Rows that are free now are
        not a line, so a burst onto an idle engine is not refused, and a lone request may exceed the tokens."""
        config, leaving = self._config, list[Request]()
        num_requests, num_tokens = self.num_requests, self.num_tokens
        victims = self._victims(request)
        while num_requests and (
            num_requests >= config.max_num_queued_reqs + num_free_rows
            or num_tokens + request.num_prompt_tokens > config.max_num_queued_tokens
        ):
            victim = next(victims, None) if len(leaving) < MOST_DISPLACED else None
            if victim is None:
                return None
            leaving.append(victim)
            num_requests -= 1
            num_tokens -= victim.num_prompt_tokens
        return leaving

    def add(self, request: Request) -> None:
        assert request.phase is Phase.WAITING
        self._fresh[request.class_rank].push(request)
        insort(self._arrivals, request, key=_arrival)
        self._count(request, 1)

    def put_back(self, request: Request) -> None:
        """Preempted: it goes before every fresh request of its class, for free."""
        assert request.was_admitted
        request.lost_row_s = None
        insort(self._preempted[request.class_rank], request, key=_arrival)
        self._count(request, 1)

    def candidates(self, first_rank: int = 0) -> Iterator[Request]:
        """The next request, then those that may go before it while it does not fit; class `first_rank` first."""
        for rank in (first_rank, *(rank for rank in range(len(CLASSES)) if rank != first_rank)):
            yield from self._preempted[rank]
            yield from self._fresh[rank].candidates()

    def heads(self, most: int) -> list[Request]:
        """The next request of every id, and the first preempted one, of each class; as many as `most`."""
        found = [preempted[0] for preempted in self._preempted if preempted]
        for fresh in self._fresh:
            waiting = fresh.accounts_waiting.values()
            found += [account.head() for account in islice(waiting, most) if not account.is_held_back]
        return found[:most]

    def num_of_class(self, rank: int) -> int:
        return self._num_requests[rank]

    @property
    def num_accounts(self) -> int:
        return sum(fresh.num_accounts for fresh in self._fresh)

    @property
    def spread(self) -> float:
        """The widest gap between the services of two waiting ids of a class, in virtual tokens."""
        return max(fresh.spread() for fresh in self._fresh)

    def take(self, request: Request) -> None:
        """The request gets a row."""
        self.remove(request)
        if not request.was_admitted:
            self._fresh[request.class_rank].note_turn(request)

    def remove(self, request: Request) -> None:
        """The request waits no more."""
        if request.was_admitted:
            self._preempted[request.class_rank].remove(request)
        else:
            self._fresh[request.class_rank].remove(request)
            withdraw(self._arrivals, request, _arrival)
        self._count(request, -1)

    def retire(self, request: Request) -> None:
        """The request is finished, wherever it was."""
        self._fresh[request.class_rank].retire(request)

    def overdue(self, now: float) -> list[Request]:
        """Requests that wait longer than the queue timeout: for their first row, or since they lost one. They stay
        in line."""
        latest = now - self._config.queue_timeout_s
        late = list(takewhile(lambda request: request.arrival_s <= latest, self._arrivals))
        for request in chain(*self._preempted):
            if request.lost_row_s is None:
                request.lost_row_s = now
            elif request.lost_row_s <= latest:
                late.append(request)
        return late

    def observe(self, now: float, admitted: list[Request]) -> None:
        tokens = sum(request.num_prompt_tokens for request in admitted)
        self._drain.observe(now, len(admitted), tokens, has_line=self.num_requests > 0)

    def predicted_delay_s(self) -> float:
        return self._drain.delay_s(self.num_requests, self.num_tokens)

    def retry_after_s(self) -> float:
        return self._drain.retry_after_s(self.num_requests, self.num_tokens)

    def check_integrity(self, waiting: list[Request]) -> None:
        """`waiting`: every live request in phase WAITING."""
        for rank, fresh in enumerate(self._fresh):
            members = [request for request in waiting if request.class_rank == rank]
            assert self._num_requests[rank] == len(members)
            assert self._num_tokens[rank] == sum(request.num_prompt_tokens for request in members)
            admitted = {request.id for request in members if request.was_admitted}
            assert admitted == {request.id for request in self._preempted[rank]}
            fresh.check_integrity()
        newcomers = [request for request in waiting if not request.was_admitted]
        assert self._arrivals == sorted(newcomers, key=_arrival)

    def _victims(self, request: Request) -> Iterator[Request]:
        """Who gives way to the request: of a lower class anybody, of its own class the ids that take more of the
        line than its id would. Always the request that would be last among its id's; no preempted one."""
        for rank in range(len(CLASSES) - 1, request.class_rank, -1):
            yield from self._from_longest(rank, 0.0, set())
        bounds = self._config.max_num_queued_reqs, self._config.max_num_queued_tokens
        own = self._fresh[request.class_rank].accounts_waiting.get(request.fairness_id)
        mine = part_of_line(
            own or Account(request.fairness_id, 0.0, request.fairness_weight),
            *bounds,
            more=1,
            more_tokens=request.num_prompt_tokens,
        )
        yield from self._from_longest(request.class_rank, mine, {request.fairness_id})

    def _from_longest(self, rank: int, least: float, others: set[str]) -> Iterator[Request]:
        """The last requests of those ids that take more than `least` of the line, the one with the most first."""
        bounds = self._config.max_num_queued_reqs, self._config.max_num_queued_tokens
        gone: dict[str, int] = {}
        tokens: dict[str, int] = {}
        accounts = {
            id: account for id, account in self._fresh[rank].accounts_waiting.items() if id not in others
        }

        def part(account: Account) -> float:
            id = account.fairness_id
            return part_of_line(account, *bounds, more=-gone.get(id, 0), more_tokens=-tokens.get(id, 0))

        while accounts:
            account = max(accounts.values(), key=part)
            id = account.fairness_id
            if part(account) <= least:
                return
            victim = account.waiting[-1 - gone.get(id, 0)]
            gone[id] = gone.get(id, 0) + 1
            tokens[id] = tokens.get(id, 0) + victim.num_prompt_tokens
            if gone[id] == len(account.waiting):
                del accounts[id]
            yield victim

    def _count(self, request: Request, change: int) -> None:
        self._num_requests[request.class_rank] += change
        self._num_tokens[request.class_rank] += change * request.num_prompt_tokens
        assert self._num_requests[request.class_rank] >= 0


def _arrival(request: Request) -> tuple[float, int]:
    return request.arrival
