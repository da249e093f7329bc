"""Which pages each fairness id holds: a page counts once, however many of its requests share it.

`kv` reports every page that a request's tables gain or lose; `scheduler` asks before it admits whether an id
that may hold a part of the pool only would hold more. Counting only: knows no order, no rows and no budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from engine.core.request import Request


class Holding:
    """The pages in the tables of one id's requests, of all classes."""

    __slots__ = ("_refs", "fairness_id", "is_full", "max_fraction", "num_live", "num_running")

    def __init__(self, fairness_id: str) -> None:
        self.fairness_id = fairness_id
        self.num_live = 0
        self.num_running = 0
        self.max_fraction = 1.0
        """Of the pool, as its last request said."""
        self.is_full = False
        """Its next request was found not to fit into the id's share; until it gives a page back."""
        self._refs: dict[int, int] = {}

    @property
    def num_pages(self) -> int:
        return len(self._refs)

    def take(self, pages: Iterable[int]) -> None:
        refs = self._refs
        for page in pages:
            refs[page] = refs.get(page, 0) + 1

    def drop(self, pages: Iterable[int]) -> None:
        refs = self._refs
        for page in pages:
            count = refs[page] - 1
            if count:
                refs[page] = count
            else:
                del refs[page]
        self.is_full = False

    def holds(self, page: int) -> bool:
        return page in self._refs

    def counts(self, refs: Mapping[int, int]) -> bool:
        """Whether these are its pages, each as often as its requests hold it."""
        return self._refs == refs


class Holdings:
    """One per id that has a name, or a share below the whole. The others are not counted."""

    def __init__(self) -> None:
        self._holdings: dict[str, Holding] = {}
        self.num_capped = 0
        """Live requests of ids that may not hold the whole pool."""

    def __len__(self) -> int:
        return len(self._holdings)

    def open(self, request: Request) -> None:
        """The request lives."""
        if not request.fairness_id and request.max_kv_fraction >= 1:
            return
        holding = self._holdings.get(request.fairness_id)
        if holding is None:
            holding = self._holdings[request.fairness_id] = Holding(request.fairness_id)
        holding.num_live += 1
        holding.max_fraction = request.max_kv_fraction
        holding.is_full = False
        request.holding = holding
        self.num_capped += request.max_kv_fraction < 1

    def close(self, request: Request) -> None:
        """The request is finished. It may hold pages for a moment yet, which are its id's no more if no other
        request of the id is left."""
        holding = request.holding
        if holding is None:
            return
        holding.num_live -= 1
        holding.is_full = False
        self.num_capped -= request.max_kv_fraction < 1
        if holding.num_live == 0:
            del self._holdings[holding.fairness_id]

    def any_beyond(self, num_blocks: int) -> bool:
        """Whether an id holds more than its share while several of its requests run."""
        for holding in self._holdings.values():
            if holding.num_pages > holding.max_fraction * num_blocks and holding.num_running > 1:
                return True
        return False

    def check_integrity(self, live: Iterable[Request], holders: Iterable[Request]) -> None:
        """`holders`: every request that holds pages, also those that have just ended."""
        counts: dict[str, int] = {}
        num_capped = 0
        for request in live:
            if request.holding is not None:
                counts[request.fairness_id] = counts.get(request.fairness_id, 0) + 1
                num_capped += request.max_kv_fraction < 1
        assert counts == {id: holding.num_live for id, holding in self._holdings.items()}
        assert num_capped == self.num_capped
        pages: dict[Holding, Counter[int]] = {holding: Counter() for holding in self._holdings.values()}
        for request in holders:
            if request.holding is not None:
                of_id = pages.setdefault(request.holding, Counter())
                for held in request.held_pages():
                    of_id.update(held)
        for holding, refs in pages.items():
            assert holding.counts(refs), (
                f"the pages of id {holding.fairness_id!r} are not those of its tables"
            )
