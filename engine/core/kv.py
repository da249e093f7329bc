"""Block tables of the requests: gives pages, names the full ones, takes back those that nobody needs.

Between `scheduler` (who gets how many tokens) and `blocks` (the pool). All KV groups draw from one pool.
Full-attention groups get the pages of a whole prompt at admission; sliding groups get them as the prompt
advances and give them back behind the window. Knows no budget, no order and no fairness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.core.blocks import BlockPool
from engine.core.config import CoreConfig
from engine.core.contract import BlockAppend, ScheduleOutput
from engine.core.host import HostTier
from engine.core.prefix import ON_HOST, PrefixIndex, extend_digests, first_visible_page
from engine.core.request import Request

NEVER = 1 << 62
"""Later than any position."""


@dataclass(frozen=True, slots=True)
class Hit:
    """The beginning of a sequence found in the cache. Valid until the pool changes."""

    num_tokens: int
    tables: list[list[int]]


class KVManager:
    """Owns the pool. `Request.tables` and the counters about pages are written here only."""

    def __init__(self, config: CoreConfig) -> None:
        self._layout = config.layout
        self._block_size = config.layout.block_size
        self._windows = [group.window for group in config.layout.groups]
        self._caches = config.enable_prefix_caching
        self._steps_in_flight = config.steps_in_flight
        self._max_chunk = config.max_num_batched_tokens
        self.num_groups = len(self._windows)
        self._swaps = config.swaps
        self.host = HostTier(config.layout.num_host_blocks)
        self.pool = BlockPool(config.layout.num_blocks, self.host.keep if self.host.num_pages else None)
        self._index = PrefixIndex(config.layout, self.pool, self.host)

    def peak_pages(self, num_tokens: int) -> int:
        """The most pages that a sequence of `num_tokens` positions ever holds."""
        num_pages = self._num_pages(num_tokens)
        return sum(self._peak_of_group(group, num_pages) for group in self._groups)

    def share_pages(self, request: Request) -> int:
        """Pages that the request's id may hold."""
        return int(request.max_kv_fraction * self.pool.num_blocks)

    def fits_share(self, request: Request) -> bool:
        """Whether what a new request brings fits into its id's share. An answer that grows beyond it while nothing else of its
        id runs goes on, as a lone request may."""
        return request.max_kv_fraction >= 1 or (
            self.peak_pages(request.num_tokens) <= self.share_pages(request)
        )

    # Admission

    def match(self, request: Request) -> Hit:
        """The longest cached beginning that leaves at least one token to compute. Nothing for a request that wants
        log-probabilities or the mean of its prompt: a cached page has no hidden states. What was kept for a preempted request is all
        that it had."""
        if request.kept:
            return Hit(request.num_kept, self._find_kept(request))
        if not self._caches or request.wants_prompt_logprobs or request.is_mean:
            return Hit(0, [[] for _ in self._groups])
        digests = request.page_digests
        extend_digests(digests, request.token_ids, self._block_size, request.cache_salt)
        usable = (request.num_tokens - 1) // self._block_size
        num_pages = self._index.longest(digests if len(digests) == usable else digests[:usable])
        return Hit(num_pages * self._block_size, self._index.pages(digests, num_pages))

    def num_free_wanted(self, request: Request, hit: Hit) -> int:
        """Free pages that the request takes out of the pool until its known tokens are computed."""
        wanted = 0
        num_pages = self._num_pages(request.num_tokens)
        for group, table in enumerate(hit.tables):
            held = [page for page in table if page >= 0]
            wanted += self._peak_of_group(group, num_pages - table.count(-1)) - len(held)
            wanted += sum(self.pool.num_holders(page) == 0 for page in held)
        return wanted

    def exceeds_share(self, request: Request, hit: Hit) -> bool:
        """Whether its id would hold more than its share, with a page more for each of its running requests.
        With nothing running it never does: `fits_share` was asked before, and answers have the right to grow."""
        holding = request.holding
        if holding is None or request.max_kv_fraction >= 1 or holding.num_running == 0:
            return False
        num_pages, num_new = self._num_pages(request.num_tokens), 0
        for group, table in enumerate(hit.tables):
            num_new += self._peak_of_group(group, num_pages - table.count(-1))
            num_new -= sum(page >= 0 and holding.holds(page) for page in table)
        room = self.num_groups * holding.num_running
        return holding.num_pages + num_new + room > self.share_pages(request)

    def admit(self, request: Request, hit: Hit) -> None:
        """Start the tables with the hit; `grow` adds what the first step needs."""
        assert not request.tables, "tables are empty before admission"
        for table in hit.tables:
            for page in table:
                if page >= 0:
                    self.pool.share(page)
        if self.host.num_pages:
            self._bring_back(request, hit)
        if request.holding is not None:
            for table in hit.tables:
                request.holding.take([page for page in table if page >= 0])
        request.tables = hit.tables
        request.first_held = [
            first_visible_page(hit.num_tokens, window, self._block_size) for window in self._windows
        ]
        request.release_at = self._next_release(request)
        request.num_computed = hit.num_tokens
        request.capacity = hit.num_tokens
        request.num_published = hit.num_tokens // self._block_size
        request.publish_at = (request.num_published + 1) * self._block_size

    # Every step

    def num_missing(self, request: Request, end: int) -> int:
        """Pages to allocate before positions below `end` can be computed."""
        num_pages = self._num_pages(end)
        return sum(max(0, num_pages - len(table)) for table in request.tables)

    def num_missing_together(self, wants: Iterable[tuple[Request, int]]) -> int:
        return sum(self.num_missing(request, end) for request, end in wants)

    def grow(self, request: Request, end: int, *, whole: int = 0) -> list[BlockAppend]:
        """Cover the positions below `end`; in the full-attention groups those below `whole` as well."""
        appends = []
        for group, table in enumerate(request.tables):
            target = self._num_pages(max(end, whole) if self._windows[group] is None else end)
            if target > len(table):
                pages = self.pool.allocate(target - len(table))
                table += pages
                if request.holding is not None:
                    request.holding.take(pages)
                appends.append(BlockAppend(request.row, group, tuple(pages)))
        request.capacity = min(map(len, request.tables)) * self._block_size
        return appends

    def publish(self, request: Request) -> None:
        """Name the pages whose tokens are known and computed. Steps run in order, so a page that a
        launched step fills can be shared with every later step, and with the same one."""
        num_full = min(request.num_computed, len(request.token_ids)) // self._block_size
        if self._caches:
            extend_digests(request.page_digests, request.token_ids, self._block_size, request.cache_salt)
            for group, table in enumerate(request.tables):
                for index in range(request.num_published, num_full):
                    if table[index] >= 0:
                        self.pool.publish(table[index], (group, request.page_digests[index]))
        request.num_published = num_full
        request.publish_at = (num_full + 1) * self._block_size

    def release_behind(self, request: Request, position: int) -> None:
        """Give back the pages that no query at `position` or later sees. Worth a call from
        `request.release_at` on."""
        for group, window in enumerate(self._windows):
            first, held = first_visible_page(position, window, self._block_size), request.first_held[group]
            if first > held:
                table = request.tables[group]
                self.pool.release(table[held:first])
                if request.holding is not None:
                    request.holding.drop(table[held:first])
                table[held:first] = [-1] * (first - held)
                request.first_held[group] = first
        request.release_at = self._next_release(request)

    def release(self, request: Request) -> None:
        """Give back everything, tail first and the groups side by side: the beginning of a sequence is the
        part worth keeping, and worth nothing if one group's is gone."""
        assert request.num_steps_in_flight == 0, "a launched step may still touch these pages"
        for index in range(max(map(len, request.tables), default=0) - 1, -1, -1):
            at_index = [table[index] for table in request.tables if index < len(table)]
            self.pool.release(page for page in at_index if page >= 0)
        if request.holding is not None:
            for pages in request.held_pages():
                request.holding.drop(pages)
        request.tables, request.first_held, request.capacity = [], [], 0

    # The host's tier

    def swap_out(self, request: Request) -> None:
        """Before the pages of a preempted request are released: keep what it computed, if the host has room."""
        num_tokens = request.num_kept
        if not (self._swaps and num_tokens) or request.is_mean:
            return
        request.num_computed = num_tokens
        self.publish(request)
        request.num_computed = 0
        num_full = num_tokens // self._block_size
        places = [
            (group, index)
            for group, window in enumerate(self._windows)
            for index in range(
                first_visible_page(num_tokens, window, self._block_size), self._num_pages(num_tokens)
            )
        ]
        stored = self.host.store(
            [request.tables[group][index] for group, index in places],
            [
                (group, request.page_digests[index]) if self._caches and index < num_full else None
                for group, index in places
            ],
        )
        if stored is not None:
            request.kept = [[-1] * self._num_pages(num_tokens) for _ in self._groups]
            for (group, index), host_page in zip(places, stored, strict=True):
                request.kept[group][index] = host_page

    def drop_kept(self, request: Request) -> None:
        """The request does not need what was kept for it any more."""
        self.host.drop(page for table in request.kept for page in table if page >= 0)
        request.kept, request.num_kept = [], 0

    def _find_kept(self, request: Request) -> list[list[int]]:
        """Tables of what was kept; pages that the pool still has need not be brought back."""
        num_full = request.num_kept // self._block_size
        tables = []
        for group, kept in enumerate(request.kept):
            table = []
            for index, host_page in enumerate(kept):
                name = (group, request.page_digests[index]) if self._caches and index < num_full else None
                found = None if name is None or host_page < 0 else self.pool.find(name)
                table.append(-1 if host_page < 0 else ON_HOST if found is None else found)
            tables.append(table)
        return tables

    def _bring_back(self, request: Request, hit: Hit) -> None:
        """Give pages to those of the hit that are on the host only; their content comes with the next schedule."""
        places = [
            (group, index)
            for group, table in enumerate(hit.tables)
            for index, page in enumerate(table)
            if page == ON_HOST
        ]
        sources = []
        for group, index in places:
            if request.kept:
                sources.append(request.kept[group][index])
            else:
                found = self.host.find((group, request.page_digests[index]))
                assert found is not None, "a hit is valid until the pool changes"
                sources.append(found)
        self.host.hold(sources)
        self.drop_kept(request)
        num_full = hit.num_tokens // self._block_size
        pages = self.pool.allocate(len(places))
        for (group, index), source, page in zip(places, sources, pages, strict=True):
            self.host.restore(source, page)
            hit.tables[group][index] = page
            if self._caches and index < num_full:
                self.pool.publish(page, (group, request.page_digests[index]))

    # After a failure

    def spoil_moves(self, schedules: Sequence[ScheduleOutput], waiting: Iterable[Request]) -> set[int]:
        """The first of these steps failed, so its copies may not have happened, and later ones may have copied
        what was not there. Returns the pages of the pool whose content is worthless."""
        bad_hosts: set[int] = set()
        spoiled: set[int] = set()
        for number, schedule in enumerate(schedules):
            bad_hosts |= {move.host_page for move in schedule.offloads if number == 0 or move.page in spoiled}
            spoiled |= {move.page for move in schedule.restores if number == 0 or move.host_page in bad_hosts}
        self.host.forget(bad_hosts)
        for page in spoiled:
            self.pool.forget(page)
        for request in waiting:
            if any(page in bad_hosts for table in request.kept for page in table):
                self.drop_kept(request)
        return spoiled

    def spoil(self, request: Request, position: int) -> set[int]:
        """Forget the content of the request's pages from `position` on; returns those pages."""
        spoiled = {page for table in request.tables for page in table[position // self._block_size :]}
        spoiled.discard(-1)
        for page in spoiled:
            self.pool.forget(page)
        return spoiled

    def first_of(self, request: Request, pages: set[int]) -> int | None:
        """The first position that lies in one of `pages`."""
        found = [
            index * self._block_size
            for table in request.tables
            for index, page in enumerate(table)
            if page in pages
        ]
        return min(found, default=None)

    # Figures

    def num_exclusive(self, requests: Iterable[Request]) -> int:
        """Pages that nobody but these requests holds."""
        holders = self._count_holders(requests)
        return sum(self.pool.num_holders(page) == count for page, count in holders.items())

    def num_in_tables(self, requests: Iterable[Request]) -> int:
        """Pages in their tables; one that they share counts for each. Costs nothing, unlike `num_exclusive`."""
        return sum(
            len(table) - first
            for request in requests
            for table, first in zip(request.tables, request.first_held, strict=True)
        )

    def usage(self) -> float:
        return self.pool.num_held / self.pool.num_blocks

    def waste(self, requests: Iterable[Request]) -> float:
        """Share of the held page slots that no known token occupies. Only tails can be empty, and a
        tail is never shared."""
        if self.pool.num_held == 0:
            return 0.0
        empty = sum(
            max(0, len(table) * self._block_size - request.num_tokens)
            for request in requests
            for table in request.tables
        )
        return empty / (self.pool.num_held * self._block_size)

    def check_integrity(self, holders: Sequence[Request], waiting: Iterable[Request] = ()) -> None:
        """`holders`: every request that holds pages; `waiting`: those for whom pages of the host may be kept."""
        self.pool.check_integrity(self._count_holders(holders))
        self.host.check_integrity(
            page for each in waiting for table in each.kept for page in table if page >= 0
        )
        for request in holders:
            assert len(request.tables) == len(request.first_held) == self.num_groups
            for table, first in zip(request.tables, request.first_held, strict=True):
                assert all(page == -1 for page in table[:first]), "a page behind the window is held"
                assert all(page >= 0 for page in table[first:]), "a visible page is missing"

    @property
    def _groups(self) -> range:
        return range(self.num_groups)

    def _num_pages(self, num_tokens: int) -> int:
        return -(-num_tokens // self._block_size)

    def _peak_of_group(self, group: int, num_pages: int) -> int:
        """Of a sequence of `num_pages`: those between the oldest position that a step in flight sees and
        the newest that one writes."""
        window = self._windows[group]
        if window is None:
            return num_pages
        return min(num_pages, self._num_pages(window - 1 + self._steps_in_flight * self._max_chunk) + 1)

    def _next_release(self, request: Request) -> int:
        """The first query position that leaves a page of a sliding group behind."""
        return min(
            (
                (held + 1) * self._block_size + window - 1
                for held, window in zip(request.first_held, self._windows, strict=True)
                if window is not None
            ),
            default=NEVER,
        )

    @staticmethod
    def _count_holders(requests: Iterable[Request]) -> Counter[int]:
        holders: Counter[int] = Counter()
        for request in requests:
            for pages in request.held_pages():
                holders.update(pages)
        return holders
