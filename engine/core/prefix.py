"""Which pages hold the beginning of a prompt already: names of page contents, and the search for them.

A full page is named by a chained SHA-256 over (digest of the page before, its token ids, extra); the
request's cache salt is in the extra of the first page and thereby in every digest of the chain, so
different salts never share. One digest stands for a page in every KV group: the name is (group, digest).
Used by `kv`; knows no requests and changes no reference counts.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence
from hashlib import sha256

from engine.core.blocks import BlockPool
from engine.core.contract import KVLayout
from engine.core.host import HostTier

ON_HOST = -2
"""In the tables of a hit: the page is in the host's tier and has to be brought back."""
_ROOT = bytes(sha256().digest_size)
"""Stands before the first page. Parent and tokens have fixed lengths, so no two inputs read the same."""


def extend_digests(digests: list[bytes], token_ids: Sequence[int], block_size: int, salt: bytes) -> None:
    """Append the digests of the full pages of `token_ids` that `digests` lacks."""
    for page in range(len(digests), len(token_ids) // block_size):
        ids = array("I", token_ids[page * block_size : (page + 1) * block_size]).tobytes()
        digests.append(sha256(digests[-1] + ids if page else _ROOT + ids + salt).digest())


def first_visible_page(position: int, window: int | None, block_size: int) -> int:
    """Index of the first page that a query at `position` or later can see."""
    return 0 if window is None else max(0, position - window + 1) // block_size


class PrefixIndex:
    """Searches the pool for the longest usable beginning of a chain of digests."""

    def __init__(self, layout: KVLayout, pool: BlockPool, host: HostTier) -> None:
        self._pool = pool
        self._contains = self._in_either(host) if host.num_pages else pool.contains
        self._block_size = layout.block_size
        self._windows = [group.window for group in layout.groups]

    def longest(self, digests: Sequence[bytes]) -> int:
        """Number of leading pages that can be skipped: every page of the full-attention groups is there,
        and of the sliding groups those that the next query sees."""
        num_pages = len(digests)
        for group, window in enumerate(self._windows):
            if window is None:
                num_pages = self._leading_run(group, digests, num_pages)
        gap = self._last_gap(digests, num_pages)
        while gap is not None:
            num_pages = gap
            gap = self._last_gap(digests, num_pages)
        return num_pages

    def first_needed(self, group: int, num_pages: int) -> int:
        """First page of a hit of `num_pages` pages that `group` needs."""
        return first_visible_page(num_pages * self._block_size, self._windows[group], self._block_size)

    def pages(self, digests: Sequence[bytes], num_pages: int) -> list[list[int]]:
        """Block tables of a hit of that length: -1 where a page is not needed, ON_HOST where it is there only."""
        tables = []
        for group in range(len(self._windows)):
            first = self.first_needed(group, num_pages)
            found = [self._pool.find((group, digest)) for digest in digests[first:num_pages]]
            tables.append([-1] * first + [ON_HOST if page is None else page for page in found])
        return tables

    def _in_either(self, host: HostTier) -> Callable[[Hashable], bool]:
        return lambda name: self._pool.contains(name) or host.contains(name)

    def _leading_run(self, group: int, digests: Sequence[bytes], limit: int) -> int:
        for page in range(limit):
            if not self._contains((group, digests[page])):
                return page
        return limit

    def _last_gap(self, digests: Sequence[bytes], num_pages: int) -> int | None:
        """The last page that a sliding group needs for a hit of `num_pages` and that is not there.

        Every shorter hit down to that page misses it too, so the search goes on from there; page by page
        through all groups at once, which keeps the whole search linear."""
        firsts = [
            (group, self.first_needed(group, num_pages))
            for group, window in enumerate(self._windows)
            if window is not None
        ]
        lowest = min((first for _, first in firsts), default=num_pages)
        for page in range(num_pages - 1, lowest - 1, -1):
            for group, first in firsts:
                if page >= first and not self._contains((group, digests[page])):
                    return page
        return None
