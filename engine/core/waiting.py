"""The line before the runner's rows: bounded, ordered, with a deadline and a measured drain rate.

`scheduler` asks it who is next and tells it who left. Order: class, then preempted requests of the class,
then the fair choice between ids, then arrival. Policy only: knows no pages, rows or budget.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from itertools import takewhile

from engine.core.config import CoreConfig
from engine.core.fairness import FairQueue
from engine.core.request import CLASSES, Phase, Request

HALF_LIFE_S = 10.0
"""How fast the drain rate forgets."""
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


class WaitingLine:
    """Every live request without a row is in here, exactly once."""

    def __init__(self, config: CoreConfig) -> None:
        self._config = config
        self._fresh = [FairQueue() for _ in CLASSES]
        self._preempted: list[list[Request]] = [[] for _ in CLASSES]
        self._num_requests = [0] * len(CLASSES)
        self._num_tokens = [0] * len(CLASSES)
        self._arrivals: OrderedDict[str, Request] = OrderedDict()
        """Fresh requests of all classes in the order of arrival."""
        self._drain = DrainMeter()

    @property
    def num_requests(self) -> int:
        return sum(self._num_requests)

    @property
    def num_tokens(self) -> int:
        return sum(self._num_tokens)

    def has_room_for(self, request: Request, num_free_rows: int) -> bool:
        """Whether the bounds allow one more, counting those that go first or beside it. Rows that are
        free now are not a line, so a burst onto an idle engine is not refused."""
        classes = request.class_rank + 1
        ahead, tokens = sum(self._num_requests[:classes]), sum(self._num_tokens[:classes])
        if ahead >= self._config.max_num_queued_reqs + num_free_rows:
            return False
        return ahead == 0 or tokens + request.num_prompt_tokens <= self._config.max_num_queued_tokens

    def add(self, request: Request) -> None:
        assert request.phase is Phase.WAITING
        self._fresh[request.class_rank].push(request)
        self._arrivals[request.id] = request
        self._count(request, 1)

    def put_back(self, request: Request) -> None:
        """Preempted: it goes before every fresh request of its class, for free."""
        assert request.was_admitted
        insort(self._preempted[request.class_rank], request, key=lambda each: each.sequence)
        self._count(request, 1)

    def head(self) -> Request | None:
        """The request to admit next; nobody overtakes it."""
        for preempted, fresh in zip(self._preempted, self._fresh, strict=True):
            request = preempted[0] if preempted else fresh.head()
            if request is not None:
                return request
        return None

    def take(self, request: Request) -> None:
        """The request gets a row."""
        if not request.was_admitted:
            self._fresh[request.class_rank].note_turn(request)
        self.remove(request)

    def remove(self, request: Request) -> None:
        """The request waits no more."""
        if request.was_admitted:
            self._preempted[request.class_rank].remove(request)
        else:
            self._fresh[request.class_rank].remove(request)
            del self._arrivals[request.id]
        self._count(request, -1)

    def retire(self, request: Request) -> None:
        """The request is finished, wherever it was."""
        self._fresh[request.class_rank].retire(request)

    def overdue(self, now: float) -> list[Request]:
        """Requests that wait longer than the queue timeout and never had a row. They stay in line."""
        latest = now - self._config.queue_timeout_s
        return list(takewhile(lambda request: request.arrival_s <= latest, self._arrivals.values()))

    def observe(self, now: float, admitted: list[Request]) -> None:
        tokens = sum(request.num_prompt_tokens for request in admitted)
        self._drain.observe(now, len(admitted), tokens, has_line=self.num_requests > 0)

    def predicted_delay_s(self) -> float:
        return self._drain.delay_s(self.num_requests, self.num_tokens)

    def retry_after_s(self) -> float:
        least, most = RETRY_AFTER_S
        return min(most, max(least, self.predicted_delay_s()))

    def check_integrity(self, waiting: list[Request]) -> None:
        """`waiting`: every live request in phase WAITING."""
        for rank, fresh in enumerate(self._fresh):
            members = [request for request in waiting if request.class_rank == rank]
            assert self._num_requests[rank] == len(members)
            assert self._num_tokens[rank] == sum(request.num_prompt_tokens for request in members)
            admitted = {request.id for request in members if request.was_admitted}
            assert admitted == {request.id for request in self._preempted[rank]}
            fresh.check_integrity()
        assert set(self._arrivals) == {request.id for request in waiting if not request.was_admitted}

    def _count(self, request: Request, change: int) -> None:
        self._num_requests[request.class_rank] += change
        self._num_tokens[request.class_rank] += change * request.num_prompt_tokens
        assert self._num_requests[request.class_rank] >= 0
