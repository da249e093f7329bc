"""Names of page contents, and the longest usable beginning."""

from __future__ import annotations

import random
from array import array
from hashlib import sha256

import pytest

from engine.core.blocks import BlockPool
from engine.core.host import HostTier
from engine.core.prefix import PrefixIndex, extend_digests, first_visible_page
from tests.engine.core.harness import layout


def digests(tokens: list[int], salt: bytes = b"") -> list[bytes]:
    found: list[bytes] = []
    extend_digests(found, tokens, 16, salt)
    return found


def test_digest_chains_parent_tokens_and_salt() -> None:
    tokens = list(range(32))
    first = sha256(bytes(32) + array("I", tokens[:16]).tobytes() + b"salt").digest()
    second = sha256(first + array("I", tokens[16:]).tobytes()).digest()
    assert digests(tokens, b"salt") == [first, second]


def test_only_full_pages_have_a_digest() -> None:
    assert len(digests(list(range(31)))) == 1
    assert digests(list(range(15))) == []


def test_extending_equals_starting_over() -> None:
    tokens, grown = list(range(100)), []
    for end in range(101):
        extend_digests(grown, tokens[:end], 16, b"s")
    assert grown == digests(tokens, b"s")


def test_salts_share_no_digest_at_any_depth() -> None:
    """Duty engine-3: not at the first page and not later."""
    tokens = list(range(160))
    chains = [digests(tokens, salt) for salt in (b"", b"a", b"b", b"\0", b"a\0")]
    assert len({digest for chain in chains for digest in chain}) == 5 * 10


def test_a_different_beginning_changes_every_later_digest() -> None:
    tokens = list(range(64))
    assert not set(digests(tokens)) & set(digests([999, *tokens[1:]]))


@pytest.mark.parametrize(
    ("position", "window", "page"),
    [
        (0, None, 0),
        (500, None, 0),
        (16, 17, 0),
        (32, 17, 1),
        (31, 17, 0),
        (32, 16, 1),
        (32, 1, 2),
        (3, 16, 0),
    ],
)
def test_first_visible_page(position: int, window: int | None, page: int) -> None:
    assert first_visible_page(position, window, 16) == page
    if window is not None:
        oldest = max(0, position - window + 1)
        assert page * 16 <= oldest < page * 16 + 16


def index_with(windows: tuple[int | None, ...], present: list[set[int]], chain: list[bytes]) -> PrefixIndex:
    pool = BlockPool(256)
    for group, indices in enumerate(present):
        for page, index in zip(pool.allocate(len(indices)), sorted(indices), strict=True):
            pool.publish(page, (group, chain[index]))
    return PrefixIndex(layout(256, windows=windows), pool, HostTier(0))


def test_full_attention_needs_every_page() -> None:
    chain = digests(list(range(160)))
    assert index_with((None,), [{0, 1, 2, 4, 5}], chain).longest(chain) == 3
    assert index_with((None,), [set()], chain).longest(chain) == 0


def test_sliding_attention_needs_only_the_last_window() -> None:
    chain = digests(list(range(160)))
    index = index_with((None, 33), [set(range(10)), {8, 9}], chain)
    assert index.longest(chain) == 10, "positions 128…159 are pages 8 and 9"
    assert index.pages(chain, 10)[1][:8] == [-1] * 8
    assert all(page >= 0 for page in index.pages(chain, 10)[0])
    index = index_with((None, 34), [set(range(10)), {8, 9}], chain)
    assert index.longest(chain) == 0, "the window reaches one position into page 7"


def test_a_gap_in_the_window_shortens_the_hit() -> None:
    chain = digests(list(range(160)))
    index = index_with((None, 17), [set(range(10)), {2, 3, 5, 9}], chain)
    assert index.longest(chain) == 10
    index = index_with((None, 33), [set(range(10)), {2, 3, 5, 9}], chain)
    assert index.longest(chain) == 4


def test_longest_equals_the_definition() -> None:
    rng = random.Random(7)
    chain = digests(list(range(16 * 12)))
    for _ in range(300):
        windows = tuple(rng.choice([None, 1, 15, 16, 17, 18, 40, 100]) for _ in range(rng.randint(1, 3)))
        density = rng.choice([0.5, 0.8, 0.95])
        present = [{i for i in range(12) if rng.random() < density} for _ in windows]

        def is_usable(num_pages: int, windows=windows, present=present) -> bool:  # type: ignore[no-untyped-def]
            return all(
                position // 16 in present[group]
                for group, window in enumerate(windows)
                for position in range(
                    0 if window is None else max(0, num_pages * 16 - window + 1), num_pages * 16
                )
            )

        expected = max(num_pages for num_pages in range(13) if is_usable(num_pages))
        index = index_with(windows, present, chain)
        assert index.longest(chain) == expected, (windows, present)
        tables = index.pages(chain, expected)
        assert all(len(table) == expected for table in tables)
