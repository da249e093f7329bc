"""kernels.host_plan: indices into a layer's memory against plain indexing of its pages."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.host_plan import HostPlan, PageShape, _buckets, build_host_plans, run_matrix, write_runs

pytestmark = pytest.mark.usefixtures("seed")

BLOCK, HEADS, DIM, PAGES = 4, 2, 8, 60


def _layer() -> Tensor:
    """One layer inside pages of three."""
    return torch.randn(PAGES, 3, 2, HEADS, BLOCK, DIM)[:, 1]


def _tables(groups: int, lens: list[int]) -> Tensor:
    width = -(-max(lens) // BLOCK)
    return torch.randperm(PAGES)[: groups * len(lens) * width].view(groups, len(lens), width).to(torch.int32)


def _plans(
    kv: Tensor, tables: Tensor, counts: list[int], lens: list[int], windows: list[int | None]
) -> list[HostPlan]:
    starts = [sum(counts[:row]) for row in range(len(counts) + 1)]
    return build_host_plans(PageShape.of(kv), tables, starts, lens, windows)


def _token(kv: Tensor, table: Tensor, position: int) -> Tensor:
    """[2, heads, D]."""
    return kv[int(table[position // BLOCK]), :, :, position % BLOCK]


def test_single_rows_see_their_keys_and_padding_repeats_the_newest() -> None:
    kv, lens = _layer(), [9, 5, 12]
    tables = _tables(2, lens)
    for group, plan in enumerate(_plans(kv, tables, [1, 1, 1], lens, [None, 7])):
        (singles,) = plan.singles
        assert singles.tokens == slice(0, 3)
        window = (None, 7)[group]
        oldest = [0 if window is None else max(0, length - window) for length in lens]
        width = max(length - first for length, first in zip(lens, oldest, strict=True))
        found = run_matrix(kv).index_select(0, singles.runs).view(2, 3, HEADS, width, DIM)
        for row, length in enumerate(lens):
            for place in range(width):
                position = min(oldest[row] + place, length - 1)
                assert torch.equal(found[:, row, :, place], _token(kv, tables[group, row], position))
            hidden = singles.hidden.expand(3 * HEADS, 1, width)[row * HEADS, 0].isinf().sum()
            assert width - hidden == length - oldest[row]


def test_rows_of_very_different_lengths_are_apart_and_chunks_between_them_are_left_out() -> None:
    lens = [3, 200, 5, 150]
    (plan,) = _plans(torch.randn(PAGES * 4, 2, HEADS, BLOCK, DIM), _tables(1, [8] * 4).repeat(1, 1, 25),
                     [1, 1, 2, 1], lens, [None])  # fmt: skip
    short, long = plan.singles
    assert short.tokens == slice(0, 1)
    assert isinstance(long.tokens, Tensor)
    assert long.tokens.tolist() == [1, 4]
    (chunk,) = plan.chunks
    assert chunk.tokens == slice(2, 4)
    assert plan.num_tokens == 5


@pytest.mark.parametrize("window", [None, 1, 4, 100])
def test_a_chunk_sees_what_its_queries_may_see(window: int | None) -> None:
    kv, length, count = _layer(), 14, 5
    tables = _tables(1, [length])
    (plan,) = _plans(kv, tables, [count], [length], [window])
    (chunk,) = plan.chunks
    keys = [
        position
        for position in range(length)
        if any(q - (window or length) < position <= q for q in range(length - count, length))
    ]
    found = run_matrix(kv).index_select(0, chunk.runs).view(2, HEADS, len(keys), DIM)
    for place, position in enumerate(keys):
        assert torch.equal(found[:, :, place], _token(kv, tables[0, 0], position))
    assert chunk.visible is not None
    for row, query in enumerate(range(length - count, length)):
        expected = [query - (window or length) < position <= query for position in keys]
        assert chunk.visible[row].tolist() == expected


def test_a_whole_prompt_needs_no_mask() -> None:
    (plan, narrow) = _plans(_layer(), _tables(2, [6]), [6], [6], [None, 5])
    assert plan.chunks[0].visible is None
    assert narrow.chunks[0].visible is not None


def test_written_tokens_go_where_their_slots_say() -> None:
    kv = _layer()
    slots = torch.randperm(PAGES * BLOCK)[:5]
    entries = torch.randn(5, 2 * HEADS, DIM)
    run_matrix(kv).index_copy_(0, write_runs(PageShape.of(kv), slots).view(-1), entries.view(-1, DIM))
    for slot, entry in zip(slots.tolist(), entries, strict=True):
        assert torch.equal(kv[slot // BLOCK, :, :, slot % BLOCK].reshape(-1, DIM), entry)


def test_buckets_hold_every_row_once_in_order_and_bound_the_padding() -> None:
    lens = torch.randint(1, 5000, (60,)).tolist()
    for window in (None, 512):
        spans = {row: (max(0, lens[row] - (window or 5000)), lens[row]) for row in range(0, 60, 2)}
        buckets = _buckets(spans)
        assert sorted(row for bucket in buckets for row in bucket) == list(spans)
        for bucket in buckets:
            assert bucket == sorted(bucket)
            visible = [spans[row][1] - spans[row][0] for row in bucket]
            assert max(visible) <= max(64, 2 * min(visible))
