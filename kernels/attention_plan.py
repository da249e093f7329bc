"""The attention work list: which (row, query tokens, key range) each program of `paged_attention` takes.

Place in the path: runner, once per step and KV window → here; read by `kernels/paged_attention.py` in every
layer. Made on the device from `query_start` and `seq_lens`, so that no length travels to the host and the
launch grids depend on capacities alone (a CUDA graph replays them). Knows no layer, no head and no page.

Rows whose queries fit one 16-row tile (decode, a few tokens to verify) become *narrow* items, split along the
keys so that a long context is shared by many programs; all others become *wide* items, never split:

    narrow[i] = (table row, first query token, query tokens, position of the first, key start, key end, split, parts)
    wide[i]   = (table row, first query token, query tokens, position of the first)

Decode rows that begin with the same pages (`kernels/shared_prefix.py`) leave these to *shared* items, narrow ones too,
whose tile holds queries of as many rows as fit. Such an item's position is −1, and it counts places in
`Prefixes.order` instead of query tokens. They come first, being the longest. `parts` is the number of items of a
row that shares nothing, which lie side by side; 0 of the others: `AttentionPlan.parts` says where theirs are.

In a fixed plan (`AttentionPlan.is_fixed`) the first tile of a row may begin before its first query: then `first query
token` and `position` are those of the tile's first place, `query tokens` counts places, and `split` says how many of
them are empty.

Bytes: 16·R read by every row, 32 or 16 an item written; bound by latency.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.shared_prefix import LEAST_ROWS, Prefixes, allocate_prefixes, find_prefixes, most_tiles

NARROW_ROWS = 16
"""Query rows (tokens times heads per key head) of a narrow tile: the smallest M of the tensor cores."""
KEY_STEP = 64
"""Splits start at multiples of this, so that none starts inside a tile of keys."""
_PROGRAMS = 528
"""Programs (per launch, all key heads together) that narrow rows are split for: four per multiprocessor."""
_MIN_SPLIT = 128
_WIDE_ROWS = 64
_ITEMS_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """The work list of one KV window, and the scratch space of its split rows. Allocated once, filled in
    place by `build_plan`. Launches that share it must be ordered (one stream)."""

    narrow: Tensor
    """[capacity, 8] int32."""
    wide: Tensor
    """[capacity, 4] int32."""
    counts: Tensor
    """[2] int32: narrow items, wide items."""
    partial: Tensor
    """[narrow capacity, Hk, 16, D] fp32: unnormalised results of the splits."""
    stats: Tensor
    """[narrow capacity, Hk, 2, 16] fp32: their running maxima (base 2) and sums."""
    arrived: Tensor
    """[tokens, Hq] int32: how many parts of an answer are done; zero between launches."""
    parts: Tensor
    """[tokens, 8] int32, of the tokens of rows that share: first own item | own items | first shared item | shared items |
    place in the shared items' tile; the rest is empty."""
    narrow_tokens: int
    wide_tokens: int
    window: int | None
    num_splits: int
    """Splits to aim at over all rows, per key head."""
    min_split: int
    """Keys of the smallest split."""
    max_rows: int
    is_fixed: bool = False
    """Every row is cut into narrow items and none of these is split, so that what a query gets does not depend on the
    other rows, nor on how many queries its row has in this step."""
    prefixes: Prefixes | None = None
    """None where no keys are shared: under a window, in a fixed plan, and where a tile has room for one row only."""

    @property
    def has_wide(self) -> bool:
        """Whether the step may hold rows that are not narrow."""
        return self.wide.shape[0] > 0

    def sized(self, rows: int, tokens: int, *, wide: bool = True) -> AttentionPlan:
        """A view for steps of at most `rows` rows and `tokens` tokens: its launches are no larger than such
        a step can need. Without `wide` no row may have more than `narrow_tokens` tokens."""
        if self.is_fixed:
            # A row's first and last tile may be partly empty.
            tiles = triton.cdiv(tokens, self.narrow_tokens) + 2 * min(rows, tokens)
            return replace(self, narrow=self.narrow[:tiles])
        # A wide row has more tokens than a narrow tile holds, and its last tile may be partly empty.
        tiles = triton.cdiv(tokens, self.wide_tokens) + min(rows, tokens // (self.narrow_tokens + 1))
        tile_rows = self.narrow_tokens if self.prefixes else 0
        narrow = _narrow_capacity(min(rows, tokens), self.num_splits, tile_rows)
        return replace(self, narrow=self.narrow[:narrow], wide=self.wide[: tiles if wide else 0])


def allocate_plan(
    max_rows: int,
    max_tokens: int,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    device: torch.device,
    window: int | None = None,
    *,
    programs: int = _PROGRAMS,
    wide_rows: int = _WIDE_ROWS,
    min_split: int = _MIN_SPLIT,
    is_fixed: bool = False,
    shares: bool = True,
) -> AttentionPlan:
    """Buffers for steps of up to `max_rows` rows and `max_tokens` tokens. Without `shares` rows that begin with the same
    pages read them one by one. The other keyword arguments but `is_fixed` are for tuning."""
    group = num_heads // num_kv_heads
    assert group <= NARROW_ROWS, f"{group} query heads per key head do not fit a tile of {NARROW_ROWS} rows"
    assert min_split % KEY_STEP == 0
    wide_tokens = wide_rows // group
    num_splits = triton.cdiv(programs, num_kv_heads)
    narrow_tokens = NARROW_ROWS // group
    may_share = shares and window is None and not is_fixed and narrow_tokens > 1
    narrow_capacity = _narrow_capacity(max_rows, num_splits, narrow_tokens if may_share else 0)
    if is_fixed:
        narrow_capacity = 2 * max_rows + triton.cdiv(max_tokens, narrow_tokens)
    split_capacity, split_tokens = (1, 1) if is_fixed else (narrow_capacity, max_tokens)

    def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    return AttentionPlan(
        narrow=zeros(narrow_capacity, 8),
        wide=zeros(0 if is_fixed else triton.cdiv(max_tokens, wide_tokens) + max_rows, 4),
        counts=zeros(2),
        partial=zeros(split_capacity, num_kv_heads, NARROW_ROWS, head_dim, dtype=torch.float32),
        stats=zeros(split_capacity, num_kv_heads, 2, NARROW_ROWS, dtype=torch.float32),
        arrived=zeros(split_tokens, num_heads),
        parts=zeros(split_tokens, 8),
        narrow_tokens=narrow_tokens,
        wide_tokens=wide_tokens,
        window=window,
        num_splits=num_splits,
        min_split=min_split,
        max_rows=max_rows,
        is_fixed=is_fixed,
        prefixes=allocate_prefixes(max_rows, device) if may_share else None,
    )


def _narrow_capacity(rows: int, num_splits: int, tile_rows: int) -> int:
    """Items that `rows` narrow rows can need, with shared ones of `tile_rows` rows (0: none)."""
    # Every row and every shared tile is one, and what they are cut into is `goal` more (see `_build`).
    whole = rows + (most_tiles(rows, tile_rows) if tile_rows else 0)
    return max(num_splits, whole + math.ceil(num_splits / 2))


def build_plan(
    plan: AttentionPlan,
    query_start: Tensor,
    seq_lens: Tensor,
    table_rows: Tensor | None = None,
    block_table: Tensor | None = None,
    page_size: int = 0,
) -> None:
    """Fill `plan` for R rows: query_start [R + 1], seq_lens [R], int32. Rows without queries get no item.

    `table_rows` [R] int32 names each row's line of the block table (default: 0 … R − 1), so that a table of all
    requests serves without being gathered. With the `block_table` [lines, pages] int32 that all of the plan's launches
    will use, rows of the same first pages share them where the plan can.
    """
    rows = seq_lens.shape[0]
    assert rows <= plan.max_rows, f"{rows} rows in a plan for {plan.max_rows}"
    if plan.is_fixed:
        _build_fixed[(rows,)](
            query_start, seq_lens, table_rows, plan.narrow, plan.counts, rows, plan.narrow_tokens, plan.window or 0,
            ROWS=triton.next_power_of_2(plan.max_rows), ITEMS=_ITEMS_AT_ONCE, STEP=KEY_STEP, num_warps=1,
        )  # fmt: skip
        return
    shared: tuple[Tensor, Tensor] | tuple[None, None] = (None, None)
    if plan.prefixes is not None and block_table is not None and rows >= LEAST_ROWS:
        find_prefixes(plan.prefixes, query_start, seq_lens, table_rows, block_table, page_size, KEY_STEP)
        shared = plan.prefixes.rows, plan.prefixes.order
    _build[(rows,)](
        query_start, seq_lens, table_rows, *shared, plan.narrow, plan.wide, plan.parts, plan.counts,
        rows, plan.narrow_tokens, plan.wide_tokens, plan.num_splits, plan.min_split, plan.window or 0,
        ROWS=triton.next_power_of_2(plan.max_rows), ITEMS=_ITEMS_AT_ONCE, STEP=KEY_STEP, num_warps=1,
    )  # fmt: skip


@triton.jit
def _lowest_key(position, window, STEP: tl.constexpr):
    return tl.where(window > 0, tl.maximum(position - window + 1, 0), 0) // STEP * STEP


@triton.jit
def _cut(keys, longest, STEP: tl.constexpr):
    """Length of the parts that `keys` keys are cut into, and their number: about equal, none above `longest`."""
    parts = tl.maximum(tl.cdiv(keys, longest), 1)
    split = tl.maximum(tl.cdiv(tl.cdiv(keys, parts), STEP) * STEP, STEP)
    return split, tl.cdiv(keys, split)


@triton.jit(do_not_specialize=["rows", "window", "num_splits"])
def _build(
    query_start, seq_lens, table_rows, prefixes, order, narrow, wide, parts, counts,
    rows, narrow_tokens, wide_tokens, num_splits, min_split, window,
    ROWS: tl.constexpr, ITEMS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    # A program a row. Each repeats the sums over all rows (a few hundred) that say where its own items begin.
    mine = tl.program_id(0)
    row = tl.arange(0, ROWS)
    there = row < rows
    count = tl.load(query_start + row + 1, there, 0) - tl.load(query_start + row, there, 0)
    length = tl.load(seq_lens + row, there, 0)
    is_narrow = (count > 0) & (count <= narrow_tokens)
    low = _lowest_key(length - count, window, STEP)
    shared_tiles = tl.zeros([ROWS], tl.int32)
    if prefixes is not None:
        low = tl.load(prefixes + row * 8, there, 0)
        leads = (low > 0) & (tl.load(prefixes + row * 8 + 2, there, 0) == 0)
        shared_tiles = tl.where(leads, tl.cdiv(tl.load(prefixes + row * 8 + 1, there, 0), narrow_tokens), 0)
    keys = tl.where(is_narrow, length - low, 0)
    # Rows and shared tiles are cut into parts of about equal length, and no more parts than fit the device at once: the
    # launch takes as long as its longest part, or twice that if there is a second wave.
    whole = tl.sum(is_narrow.to(tl.int32), 0) + tl.sum(shared_tiles, 0)
    goal = tl.maximum(num_splits - whole, tl.cdiv(num_splits, 2))
    all_keys = tl.sum(keys, 0) + tl.sum(shared_tiles * low, 0)
    longest = tl.maximum(tl.cdiv(tl.cdiv(all_keys, goal), STEP) * STEP, min_split)
    _, splits = _cut(keys, longest, STEP)
    shared_items = tl.zeros([ROWS], tl.int32)
    if prefixes is not None:
        _, shared_splits = _cut(low, longest, STEP)
        shared_items = shared_tiles * shared_splits
    all_shared = tl.sum(shared_items, 0)
    tiles = tl.where(count > narrow_tokens, tl.cdiv(count, wide_tokens), 0)
    if mine == 0:
        tl.store(counts, all_shared + tl.sum(splits, 0))
        tl.store(counts + 1, tl.sum(tiles, 0))

    first = tl.load(query_start + mine)
    count_mine = tl.load(query_start + mine + 1) - first
    length_mine = tl.load(seq_lens + mine)
    position = length_mine - count_mine
    line = mine
    if table_rows is not None:
        line = tl.load(table_rows + mine)
    if count_mine > narrow_tokens:
        begin = tl.sum(tl.where(row < mine, tiles, 0), 0)
        _write_wide(wide + begin * 4, line, first, count_mine, position, wide_tokens, ITEMS)
    elif count_mine > 0:
        low_mine = _lowest_key(position, window, STEP)
        shared_first, shared_parts, place = 0, 0, 0
        if prefixes is not None:
            low_mine = tl.load(prefixes + mine * 8)
            if low_mine > 0:
                leader = tl.load(prefixes + mine * 8 + 3)
                shared_first, shared_parts, place = _share_keys(
                    prefixes + mine * 8, order, narrow, tl.sum(tl.where(row < leader, shared_items, 0), 0), line, first,
                    position, low_mine, longest, narrow_tokens, ITEMS, STEP,
                )  # fmt: skip
        begin = all_shared + tl.sum(tl.where(row < mine, splits, 0), 0)
        split, number = _cut(length_mine - low_mine, longest, STEP)
        _write_own(
            narrow + begin * 8, line, first, count_mine, position, low_mine, split, number,
            tl.where(shared_parts > 0, 0, number), ITEMS,
        )  # fmt: skip
        if shared_parts > 0:
            at = parts + first * 8
            tl.store(at, begin)
            tl.store(at + 1, number)
            tl.store(at + 2, shared_first)
            tl.store(at + 3, shared_parts)
            tl.store(at + 4, place)


@triton.jit
def _share_keys(
    of_row, order, narrow, begin, line, first, position, shared, longest, narrow_tokens,
    ITEMS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Take a row's place in its group, whose items begin with `begin`; its first row writes them. Returns the first item
    of the row's tile, the tile's items, and the row's place in the tile."""
    rank, start = tl.load(of_row + 2), tl.load(of_row + 4)
    split, parts = _cut(shared, longest, STEP)
    tl.store(order + (start + rank) * 2, first)
    tl.store(order + (start + rank) * 2 + 1, position)
    if rank == 0:
        members = tl.load(of_row + 1)
        _write_shared(narrow + begin * 8, line, start, members, shared, split, narrow_tokens, ITEMS)
    return begin + rank // narrow_tokens * parts, parts, rank % narrow_tokens


@triton.jit
def _write_wide(wide, line, first, count, position, wide_tokens, ITEMS: tl.constexpr):
    number = tl.cdiv(count, wide_tokens)
    for start in tl.range(0, number, ITEMS):
        item = start + tl.arange(0, ITEMS)
        # A row's last tile sees the most keys: it goes first, so that the tail of the launch is short.
        offset = (number - 1 - item) * wide_tokens
        at, valid = wide + item * 4, item < number
        tl.store(at, line, valid)
        tl.store(at + 1, first + offset, valid)
        tl.store(at + 2, tl.minimum(count - offset, wide_tokens), valid)
        tl.store(at + 3, position + offset, valid)


@triton.jit
def _write_own(narrow, line, first, count, position, low, split, number, parts, ITEMS: tl.constexpr):
    """A row's own items: from key `low` on."""
    for start in tl.range(0, number, ITEMS):
        item = start + tl.arange(0, ITEMS)
        key_start = low + item * split
        at, valid = narrow + item * 8, item < number
        tl.store(at, line, valid)
        tl.store(at + 1, first, valid)
        tl.store(at + 2, count, valid)
        tl.store(at + 3, position, valid)
        tl.store(at + 4, key_start, valid)
        tl.store(at + 5, tl.minimum(key_start + split, position + count), valid)
        tl.store(at + 6, item, valid)
        tl.store(at + 7, parts, valid)


@triton.jit
def _write_shared(narrow, line, start, members, shared, split, narrow_tokens, ITEMS: tl.constexpr):
    """The items of a group of `members` rows from place `start` on: the parts of each tile side by side."""
    cuts = tl.cdiv(shared, split)
    number = tl.cdiv(members, narrow_tokens) * cuts
    for done in tl.range(0, number, ITEMS):
        item = done + tl.arange(0, ITEMS)
        place, key_start = item // cuts * narrow_tokens, item % cuts * split
        at, valid = narrow + item * 8, item < number
        tl.store(at, line, valid)
        tl.store(at + 1, start + place, valid)
        tl.store(at + 2, tl.minimum(members - place, narrow_tokens), valid)
        tl.store(at + 3, tl.full([ITEMS], -1, tl.int32), valid)
        tl.store(at + 4, key_start, valid)
        tl.store(at + 5, tl.minimum(key_start + split, shared), valid)
        tl.store(at + 6, item % cuts, valid)
        tl.store(at + 7, tl.zeros([ITEMS], tl.int32), valid)


@triton.jit(do_not_specialize=["rows", "window"])
def _build_fixed(
    query_start, seq_lens, table_rows, narrow, counts, rows, narrow_tokens, window,
    ROWS: tl.constexpr, ITEMS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    mine = tl.program_id(0)
    row = tl.arange(0, ROWS)
    there = row < rows
    count = tl.load(query_start + row + 1, there, 0) - tl.load(query_start + row, there, 0)
    length = tl.load(seq_lens + row, there, 0)
    # Tiles begin at multiples of their size: a query's place in one, and the keys it is multiplied with, follow from
    # its position.
    tiles = tl.where(count > 0, tl.cdiv(length, narrow_tokens) - (length - count) // narrow_tokens, 0)
    if mine == 0:
        tl.store(counts, tl.sum(tiles, 0))
        tl.store(counts + 1, 0)
    first = tl.load(query_start + mine)
    end = tl.load(seq_lens + mine)
    start = end - (tl.load(query_start + mine + 1) - first)
    line = mine
    if table_rows is not None:
        line = tl.load(table_rows + mine)
    begin = tl.sum(tl.where(row < mine, tiles, 0), 0)
    number = tl.where(end > start, tl.cdiv(end, narrow_tokens) - start // narrow_tokens, 0)
    for group in tl.range(0, number, ITEMS):
        item = group + tl.arange(0, ITEMS)
        # A row's last tile sees the most keys: it goes first, so that the tail of the launch is short.
        position = (start // narrow_tokens + number - 1 - item) * narrow_tokens
        tile_end = tl.minimum(position + narrow_tokens, end)
        at, valid = narrow + (begin + item) * 8, item < number
        tl.store(at, line, valid)
        tl.store(at + 1, first + position - start, valid)
        tl.store(at + 2, tile_end - position, valid)
        tl.store(at + 3, position, valid)
        tl.store(at + 4, _lowest_key(position, window, STEP), valid)
        tl.store(at + 5, tile_end, valid)
        tl.store(at + 6, tl.maximum(start - position, 0), valid)
        tl.store(at + 7, tl.zeros([ITEMS], tl.int32) + 1, valid)
