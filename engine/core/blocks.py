"""The page pool: who holds which page, which page is free, and what a free page still contains.

Mechanism only, under `kv`: reference counts, an LRU list of free pages, and a name for the content of a
page. A named page in the free list is a hit until it is reused. The list is linked through two arrays, so
a hit takes a page out of its middle in O(1). Knows no requests, tokens, groups or windows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping


class BlockPool:
    """`num_blocks` pages, numbered from 0. Every method is O(pages named in the call)."""

    def __init__(self, num_blocks: int, on_reuse: Callable[[int, Hashable], None] | None = None) -> None:
        """`on_reuse` hears of every named page before its content is forgotten for a new owner."""
        assert num_blocks > 0
        self._on_reuse = on_reuse
        self.num_blocks = num_blocks
        self.num_free = num_blocks
        self._refs = [0] * num_blocks
        self._names: list[Hashable | None] = [None] * num_blocks
        self._pages: dict[Hashable, int] = {}
        # A ring through the free pages: the element `num_blocks` is its anchor, after it comes the page
        # to be reused first, before it the one freed last.
        self._next = [*range(1, num_blocks + 1), 0]
        self._prev = [num_blocks, *range(num_blocks)]

    def allocate(self, count: int) -> list[int]:
        """Take the `count` free pages unused for longest; what they contained is forgotten."""
        assert count <= self.num_free, f"{count} pages asked for, {self.num_free} free"
        pages = []
        for _ in range(count):
            page = self._next[self.num_blocks]
            self._unlink(page)
            name = self._names[page]
            if name is not None:
                if self._on_reuse is not None:
                    self._on_reuse(page, name)
                self.forget(page)
            self._refs[page] = 1
            pages.append(page)
        return pages

    def share(self, page: int) -> None:
        """One more holder of a page found by `find`."""
        if self._refs[page] == 0:
            self._unlink(page)
        self._refs[page] += 1

    def release(self, pages: Iterable[int]) -> None:
        """One holder fewer. Of the named pages that become free, the first given is reused first."""
        for page in pages:
            assert self._refs[page] > 0, f"page {page} released twice"
            self._refs[page] -= 1
            if self._refs[page] == 0:
                self._link(page)

    def find(self, name: Hashable) -> int | None:
        return self._pages.get(name)

    def contains(self, name: Hashable) -> bool:
        return name in self._pages

    def publish(self, page: int, name: Hashable) -> None:
        """Name the content of a held page. With two pages of the same content the first keeps the name."""
        assert self._refs[page] > 0, "only a held page can be filled"
        assert self._names[page] is None, f"page {page} is published already"
        if name not in self._pages:
            self._pages[name] = page
            self._names[page] = name

    def forget(self, page: int) -> None:
        """The content of the page cannot be found any more."""
        name = self._names[page]
        if name is not None:
            del self._pages[name]
            self._names[page] = None

    def num_holders(self, page: int) -> int:
        return self._refs[page]

    @property
    def num_held(self) -> int:
        return self.num_blocks - self.num_free

    def check_integrity(self, holders: Mapping[int, int]) -> None:
        """`holders`: page → references counted by the caller in all block tables. Runs over all pages
        while a request may arrive, hence the bulk comparisons: 100,000 pages take some 20 ms."""
        refs, names, after = self._refs, self._names, self._next
        free: list[int] = []
        page = after[self.num_blocks]
        while page != self.num_blocks and len(free) <= self.num_blocks:
            free.append(page)
            page = after[page]
        assert page == self.num_blocks, "the free list runs in a circle"
        ring = [self.num_blocks, *free, self.num_blocks]
        assert list(map(self._prev.__getitem__, ring[1:])) == ring[:-1], "the free list is torn"
        assert len(free) == self.num_free, "free pages are miscounted"
        num_plain = list(map(names.__getitem__, free)).count(None)
        num_cached, num_held = len(free) - num_plain, self.num_blocks - refs.count(0)
        assert num_plain + num_cached + num_held == self.num_blocks, "free + cached + held != total"
        assert not any(map(refs.__getitem__, free)), "a held page is in the free list"
        assert num_held == len(holders), "references and tables differ"
        assert all(refs[page] == count for page, count in holders.items()), "references and tables differ"
        assert list(map(names.__getitem__, self._pages.values())) == list(self._pages), (
            "names and pages differ"
        )
        assert len(self._pages) == self.num_blocks - names.count(None), "a name that is not found"

    def _unlink(self, page: int) -> None:
        before, after = self._prev[page], self._next[page]
        self._next[before] = after
        self._prev[after] = before
        self.num_free -= 1

    def _link(self, page: int) -> None:
        """At the end of the list; a page without a name is of no use to anybody and goes to its start."""
        anchor = self.num_blocks
        before = anchor if self._names[page] is None else self._prev[anchor]
        after = self._next[before]
        self._next[before] = self._prev[after] = page
        self._prev[page], self._next[page] = before, after
        self.num_free += 1
