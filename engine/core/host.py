"""The second tier: pages of host memory that keep what the device's pool has no room for.

Under `kv`. A named page that the pool reuses is copied here under its name, which carries the cache salt, and is
found here later; a preempted request may leave all its pages here until it comes back. What has to be copied is
collected and goes with the next schedule, whose own work comes after it. Knows no requests, tokens or groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from engine.core.blocks import BlockPool
from engine.core.contract import PageMove


class HostTier:
    """`num_pages` pages of host memory, numbered from 0; with none of them it is there and does nothing."""

    def __init__(self, num_pages: int) -> None:
        self.pool = BlockPool(max(1, num_pages))
        self.num_pages = num_pages
        self.num_offloaded = 0
        self.num_restored = 0
        self._offloads: list[PageMove] = []
        self._restores: list[PageMove] = []
        self._sources: list[int] = []
        """Pages that the collected restores read; held until the schedule has them."""

    def keep(self, page: int, name: Hashable) -> None:
        """The pool is about to reuse a page of that content."""
        found = self.pool.find(name)
        if found is not None:
            self.pool.share(found)  # the one used last, once it is free again
            self.pool.release([found])
        elif self.num_pages and self.pool.num_free:
            self.pool.release([self._copy(page, name)])

    def store(self, pages: Sequence[int], names: Sequence[Hashable | None]) -> list[int] | None:
        """Keep these pages until `drop`; those without a name for one owner. None if there is no room for all."""
        if len(pages) > self.pool.num_free or not self.num_pages:
            return None
        stored = []
        for page, name in zip(pages, names, strict=True):
            found = None if name is None else self.pool.find(name)
            if found is not None:
                self.pool.share(found)
                stored.append(found)
            else:
                stored.append(self._copy(page, name))
        return stored

    def drop(self, stored: Iterable[int]) -> None:
        self.pool.release(stored)

    def find(self, name: Hashable) -> int | None:
        return self.pool.find(name)

    def contains(self, name: Hashable) -> bool:
        return self.pool.contains(name)

    def hold(self, stored: Iterable[int]) -> None:
        """These will be restored: whatever else is stored, they stay until the schedule is made."""
        for host_page in stored:
            self.pool.share(host_page)
            self._sources.append(host_page)

    def restore(self, host_page: int, page: int) -> None:
        """Bring a page that is held back into the pool's `page`."""
        self._restores.append(PageMove(page, host_page))
        self.num_restored += 1

    def take_moves(self) -> tuple[tuple[PageMove, ...], tuple[PageMove, ...]]:
        """(to the host, from the host) for the schedule that is made now."""
        moves = tuple(self._offloads), tuple(self._restores)
        self.pool.release(self._sources)
        self._offloads, self._restores, self._sources = [], [], []
        return moves

    def forget(self, host_pages: Iterable[int]) -> None:
        """Their content never arrived."""
        for host_page in host_pages:
            self.pool.forget(host_page)

    def check_integrity(self, stored: Iterable[int]) -> None:
        """`stored`: what requests keep here, a page as often as it is kept."""
        self.pool.check_integrity(Counter([*stored, *self._sources]))
        assert self.num_pages or not (self._offloads or self._restores)

    def _copy(self, page: int, name: Hashable | None) -> int:
        (copy,) = self.pool.allocate(1)
        if name is not None:
            self.pool.publish(copy, name)
        self._offloads.append(PageMove(page, copy))
        self.num_offloaded += 1
        return copy
