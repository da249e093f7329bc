"""Which decode rows of a step begin with the same pages: their keys are read once for several rows.

Place in the path: `kernels/attention_plan.py`, in front of the work list, for windowless plans of several rows → here.
Found on the device from the block table, once per step, so that no id travels to the host and the launch depends on
the number of rows alone. Pages are equal if their ids are; what is in them is not looked at.

A row's *anchor* is its page that ends with key 256, 512, 1,024, …: the deepest that `LEAST_ROWS` rows have in common.
Rows of one anchor form a group and share the pages that all of them begin with; an equal anchor alone proves nothing
about the pages before it, so each row compares its own line with that of the lowest row which has the anchor. Of nested
beginnings a row takes the deepest: within a factor of two it shares what it can. Only pages in front of every row's
current token count: nobody writes them in this step.

Bytes: 4 a row and anchor by every row, 8 a page and row that is compared; bound by latency.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["LEAST_KEYS", "LEAST_ROWS", "Prefixes", "allocate_prefixes", "find_prefixes", "most_tiles"]

LEAST_KEYS = 256
LEAST_ROWS = 4
"""What is shared by fewer is not worth a part of its own."""
_PAGES_AT_ONCE = 512
_PAIRS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What `find_prefixes` found, in place."""

    rows: Tensor
    """[R, 8] int32: shared keys (0: none) | rows of the group | place among them | first row of the group | place of
    the group in `order`; the rest is empty."""
    order: Tensor
    """[R, 2] int32: query token and its position, the rows of a group side by side; written by the work list."""
    found: Tensor
    """[R, 2] int32: the name of a row's group (−1: none) and the keys it has in common with the row compared with."""
    arrived: Tensor
    """[1] int32: programs that are done; zero between launches."""


def allocate_prefixes(max_rows: int, device: torch.device) -> Prefixes:
    def zeros(*shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.int32, device=device)

    return Prefixes(zeros(max_rows, 8), zeros(max_rows, 2), zeros(max_rows, 2), zeros(1))


def most_tiles(rows: int, tile_rows: int) -> int:
    """Tiles of up to `tile_rows` rows that the groups among `rows` rows can fill, each with tiles of its own."""
    if rows < LEAST_ROWS:
        return 0
    sizes = range(LEAST_ROWS, LEAST_ROWS + tile_rows)
    return max(rows * math.ceil(size / tile_rows) // size for size in sizes)


def find_prefixes(
    prefixes: Prefixes,
    query_start: Tensor,
    seq_lens: Tensor,
    table_rows: Tensor | None,
    block_table: Tensor,
    page_size: int,
    step: int,
) -> None:
    """Fill `prefixes.rows` for R rows; arguments as `kernels.attention_plan.build_plan` takes them. Shared keys are a
    multiple of `step`."""
    rows = seq_lens.shape[0]
    assert block_table.stride(1) == 1
    assert LEAST_KEYS % page_size == 0 == LEAST_KEYS % step
    padded = triton.next_power_of_2(prefixes.rows.shape[0])
    _share[(rows,)](
        query_start, seq_lens, table_rows, block_table, prefixes.found, prefixes.rows, prefixes.arrived,
        rows, block_table.stride(0),
        ROWS=padded, COLUMNS=max(2, _PAIRS_AT_ONCE // padded), PAGES=_PAGES_AT_ONCE, PAGE=page_size, STEP=step,
        LEAST=LEAST_KEYS // page_size, LEAST_ROWS=LEAST_ROWS, num_warps=4,
    )  # fmt: skip


@triton.jit
def _full_pages(query_start, seq_lens, row, there, PAGE: tl.constexpr):
    """Pages in front of the one that a decode row's current token stands in; of other rows none."""
    count = tl.load(query_start + row + 1, there, 0) - tl.load(query_start + row, there, 0)
    return tl.where(count == 1, (tl.load(seq_lens + row, there, 1) - 1) // PAGE, 0)


@triton.jit
def _common(ours, theirs, limit, PAGES: tl.constexpr):
    """How many of their first `limit` pages two lines of the table have in common."""
    agree, done = 0, 0
    while (agree == done) & (done < limit):
        number = done + tl.arange(0, PAGES)
        there = number < limit
        differs = tl.load(ours + number, there, 0) != tl.load(theirs + number, there, 0)
        done = tl.minimum(done + PAGES, limit)
        agree = tl.min(tl.where(differs, number, done), 0)
    return agree


@triton.jit(do_not_specialize=["rows"])
def _share(
    query_start, seq_lens, table_rows, block_table, found, prefixes, arrived, rows, table_stride,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, PAGES: tl.constexpr, PAGE: tl.constexpr, STEP: tl.constexpr,
    LEAST: tl.constexpr, LEAST_ROWS: tl.constexpr,
):  # fmt: skip
    # A program a row finds whom to share with; the last one to arrive forms the groups.
    mine = tl.program_id(0)
    row = tl.arange(0, ROWS)
    there = row < rows
    full = _full_pages(query_start, seq_lens, row, there, PAGE)
    line = row
    if table_rows is not None:
        line = tl.load(table_rows + row, there, 0)
    lines = block_table + line.to(tl.int64) * table_stride
    full_mine = tl.sum(tl.where(row == mine, full, 0), 0)
    line_mine = tl.sum(tl.where(row == mine, line, 0), 0)
    ours = block_table + line_mine.to(tl.int64) * table_stride

    depth, level, other = 0, 0, mine
    anchor = LEAST
    going = anchor <= full_mine
    while going:
        same = (tl.load(lines + anchor - 1, anchor <= full, -1) == tl.load(ours + anchor - 1)) & (
            anchor <= full
        )
        going = tl.sum(same.to(tl.int32), 0) >= LEAST_ROWS
        if going:
            other = tl.min(tl.where(same, row, ROWS), 0)
            level += 1
            depth = anchor
            anchor *= 2
            going = anchor <= full_mine
    name, agree = -1, 0
    if depth > 0:
        line_other = tl.sum(tl.where(row == other, line, 0), 0)
        limit = tl.minimum(full_mine, tl.sum(tl.where(row == other, full, 0), 0))
        agree = _common(ours, block_table + line_other.to(tl.int64) * table_stride, limit, PAGES)
        name = tl.where(agree >= depth, other * 32 + level, -1)
    tl.store(found + mine * 2, name)
    tl.store(found + mine * 2 + 1, agree * PAGE // STEP * STEP)
    tl.debug_barrier()  # all of this program's stores come before its arrival
    if tl.atomic_add(arrived, 1, sem="acq_rel") < rows - 1:
        return
    tl.store(arrived, 0)
    _form_groups(found, prefixes, row, there, rows, ROWS, COLUMNS, LEAST_ROWS)


@triton.jit
def _form_groups(
    found, prefixes, row, there, rows, ROWS: tl.constexpr, COLUMNS: tl.constexpr, LEAST_ROWS: tl.constexpr
):
    # .cg: other programs wrote these; this multiprocessor's L1 may be stale.
    name = tl.load(found + row * 2, there, -1, cache_modifier=".cg")
    if tl.max(name, 0) < 0:
        tl.store(prefixes + row * 8, tl.zeros([ROWS], tl.int32), there)
        return
    size, place, start = tl.zeros([ROWS], tl.int32), tl.zeros([ROWS], tl.int32), tl.zeros([ROWS], tl.int32)
    first, shared = tl.full([ROWS], ROWS, tl.int32), tl.full([ROWS], 1 << 30, tl.int32)
    for done in tl.range(0, rows, COLUMNS):
        other = done + tl.arange(0, COLUMNS)
        its_name = tl.load(found + other * 2, other < rows, -1, cache_modifier=".cg")
        its_keys = tl.load(found + other * 2 + 1, other < rows, 0, cache_modifier=".cg")
        same = (name[:, None] == its_name[None, :]) & (its_name >= 0)[None, :]
        size += tl.sum(same.to(tl.int32), 1)
        place += tl.sum((same & (other[None, :] < row[:, None])).to(tl.int32), 1)
        start += tl.sum(((its_name >= 0)[None, :] & (its_name[None, :] < name[:, None])).to(tl.int32), 1)
        first = tl.minimum(first, tl.min(tl.where(same, other[None, :], ROWS), 1))
        shared = tl.minimum(shared, tl.min(tl.where(same, its_keys[None, :], 1 << 30), 1))
    at = prefixes + row * 8
    tl.store(at, tl.where(size >= LEAST_ROWS, shared, 0), there)
    tl.store(at + 1, size, there)
    tl.store(at + 2, place, there)
    tl.store(at + 3, first, there)
    tl.store(at + 4, start, there)
