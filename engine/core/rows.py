"""The runner's rows: which request sits where. A row given up is named once to the runner.

Owned by `scheduler`. Knows no pages and no order.
"""

from __future__ import annotations

from heapq import heappop, heappush

from engine.core.request import CLASSES, Request


class Rows:
    def __init__(self, count: int) -> None:
        self.seats: list[Request | None] = [None] * count
        self.num_of_class = [0] * len(CLASSES)
        self._free = list(range(count))
        self._freed: list[int] = []

    @property
    def num_running(self) -> int:
        return len(self.seats) - len(self._free)

    @property
    def num_free(self) -> int:
        return len(self._free)

    def running(self) -> list[Request]:
        return [request for request in self.seats if request is not None]

    def enter(self, request: Request) -> None:
        request.row = heappop(self._free)
        self.seats[request.row] = request
        self.num_of_class[request.class_rank] += 1
        if request.holding is not None:
            request.holding.num_running += 1

    def leave(self, request: Request) -> None:
        assert self.seats[request.row] is request
        self.seats[request.row] = None
        heappush(self._free, request.row)
        self._freed.append(request.row)
        self.num_of_class[request.class_rank] -= 1
        if request.holding is not None:
            request.holding.num_running -= 1

    def take_freed(self) -> list[int]:
        """Those given up since the last call, which the next schedule must name."""
        freed, self._freed = self._freed, []
        return freed

    def check_integrity(self) -> None:
        running = self.running()
        assert all(self.seats[request.row] is request for request in running)
        assert sorted([*self._free, *(request.row for request in running)]) == list(range(len(self.seats)))
        for rank, count in enumerate(self.num_of_class):
            assert count == sum(request.class_rank == rank for request in running)
