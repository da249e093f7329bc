"""The index of beginnings: what it finds, what it forgets, and how much memory it takes."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from gateway.routing.prefix import (
    AGE_S_MAX,
    CHUNK_BYTES,
    CHUNKS_MAX,
    ENTRY_BYTES,
    INDEX_BYTES_MAX,
    NO_MATCH,
    PrefixIndex,
    chain_of,
)


@given(st.binary(max_size=3000), st.binary(max_size=3000))
def test_as_much_matches_as_is_shared_in_whole_chunks(one: bytes, other: bytes) -> None:
    index = PrefixIndex()
    index.record(chain_of("salt", one), 1.0)
    shared = 0
    while one[shared : shared + CHUNK_BYTES] == other[shared : shared + CHUNK_BYTES] and (
        len(one) >= shared + CHUNK_BYTES <= len(other)
    ):
        shared += CHUNK_BYTES
    assert index.match(chain_of("salt", other), 1.0).matched_bytes == shared


def test_a_chunk_counts_only_after_what_came_before_it() -> None:
    index = PrefixIndex()
    index.record(chain_of("s", b"a" * 256 + b"b" * 256), 1.0)
    assert index.match(chain_of("s", b"b" * 256), 1.0) == NO_MATCH
    assert index.match(chain_of("s", b"a" * 256 + b"c" * 256), 1.0).matched_bytes == 256


def test_another_tenant_never_matches() -> None:
    index = PrefixIndex()
    index.record(chain_of("one", b"a" * 2560), 1.0)
    assert index.match(chain_of("two", b"a" * 2560), 1.0) == NO_MATCH


def test_old_beginnings_are_forgotten() -> None:
    index = PrefixIndex()
    chain = chain_of("s", b"a" * 512)
    index.record(chain, 0.0)
    assert index.match(chain, AGE_S_MAX).matched_bytes == 512
    assert index.match(chain, AGE_S_MAX + 1) == NO_MATCH
    index.record(chain_of("s", b"b" * 256), AGE_S_MAX + 1)
    assert index.num_bytes == ENTRY_BYTES


def test_memory_is_bounded_whatever_comes() -> None:
    """Duty H40: the index takes no more than its bound in bytes, measured, under prompts that never repeat."""
    index, tick = PrefixIndex(bytes_max=1 << 20), 0.0
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(600):
        tick += 0.001
        index.record(chain_of(str(number), b"x" * CHUNK_BYTES * 50), tick)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert index.num_bytes <= 1 << 20 < INDEX_BYTES_MAX
    assert taken <= 1 << 20
    assert index.match(chain_of("599", b"x" * CHUNK_BYTES * 50), tick).matched_bytes == CHUNK_BYTES * 50
    assert index.match(chain_of("0", b"x" * CHUNK_BYTES * 50), tick) == NO_MATCH


def test_when_full_the_ends_go_before_the_starts() -> None:
    index = PrefixIndex(bytes_max=ENTRY_BYTES * 10)
    chain = chain_of("s", b"a" * 2560)
    index.record(chain, 1.0)
    index.record(chain_of("s", b"b" * 256 * 4), 2.0)
    assert index.match(chain, 2.0).matched_bytes == 6 * 256


def test_one_prompt_is_read_only_so_far() -> None:
    assert len(chain_of("s", b"a" * (CHUNKS_MAX + 9) * CHUNK_BYTES)) == CHUNKS_MAX
    assert chain_of("s", b"a" * (CHUNK_BYTES - 1)) == []


def test_only_a_real_difference_is_a_correction() -> None:
    index = PrefixIndex()
    chain = chain_of("s", b"a" * 1024)
    index.record(chain, 0.0)
    match = index.match(chain, 20.0)
    for tokens, cached in ((256, 250), (256, 160), (0, 0)):
        index.correct(match, 1024, tokens, cached, recorded_at=20.0)
        assert index.match(chain, 20.0) == match
    index.correct(match, 1024, 256, 0, recorded_at=4.0)
    assert index.match(chain, 20.0) == match, "so short a time ago it may still have been in the making"
    index.correct(match, 1024, 256, 0, recorded_at=20.0)
    assert index.match(chain, 20.0) == NO_MATCH
