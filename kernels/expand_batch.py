"""A step's work list and the row tables → everything the forward pass reads, on the device in one launch.

    token t of a step belongs to the row r with query_start[r] ≤ t < query_start[r + 1];
    position = start[r] + t − query_start[r];   id = tokens[r, position];   slot = page(r, position) · block + offset

Place in the path: the GPU runner, first kernel of every step → here. Knows no model. The host sends four small
integers a row; ids, pages and sampled tokens never leave the device. Outputs are as long as the graph that reads
them: the tail is padding (id 0, position 0, slot −1), and so are the rows without tokens.

Bytes: 16·R read, 4·T ids and 4·G·T pages gathered, (16 + 8·G)·T written; bound by latency.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["ExpandedBatch", "allocate_batch", "expand_batch", "write_sampled"]

_FEW_TOKENS, _TOKENS_AT_ONCE, _TOKENS_AT_ONCE_LARGE = 256, 128, 1024
"""A decode step's rows have few tokens each; of a long prompt's a program takes more at once."""


@dataclass(frozen=True, slots=True)
class ExpandedBatch:
    """Static buffers for steps of up to T tokens, R rows and G KV groups; a graph reads slices of them."""

    token_ids: Tensor
    """[T] int64."""
    positions: Tensor
    """[T] int64."""
    slots: Tensor
    """[G, T] int64: page · block + offset, −1 for padding and for positions without a page."""
    query_start: Tensor
    """[R + 1] int32."""
    seq_lens: Tensor
    """[R] int32: 0 for rows without tokens."""
    sampled: Tensor
    """[R] int64: for each sampled row, in the order of the work list, its last token; then 0."""
    sampled_rows: Tensor
    """[R] int32: the table row of each of these; then −1."""
    sampled_lens: Tensor
    """[R] int32: where in the table its next token goes; then 0."""


def allocate_batch(max_rows: int, max_tokens: int, num_groups: int, device: torch.device) -> ExpandedBatch:
    def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    return ExpandedBatch(
        token_ids=zeros(max_tokens),
        positions=zeros(max_tokens),
        slots=zeros(num_groups, max_tokens),
        query_start=zeros(max_rows + 1, dtype=torch.int32),
        seq_lens=zeros(max_rows, dtype=torch.int32),
        sampled=zeros(max_rows),
        sampled_rows=zeros(max_rows, dtype=torch.int32),
        sampled_lens=zeros(max_rows, dtype=torch.int32),
    )


def expand_batch(
    batch: ExpandedBatch, work: Tensor, tokens: Tensor, blocks: Tensor, num_tokens: int, block_size: int
) -> None:
    """Fill the first `num_tokens` entries (a graph's size, at least the step's tokens) and all rows of `batch`.

    work [4, R] int32 = table row | start | count | samples (0 or 1), unused columns zero; tokens [rows,
    positions] int32; blocks [G, rows, spans] int32 with −1 for "no page".
    """
    rows = batch.seq_lens.shape[0]
    groups, _, spans = blocks.shape
    assert work.shape == (4, rows)
    at_once = _TOKENS_AT_ONCE if num_tokens <= _FEW_TOKENS else _TOKENS_AT_ONCE_LARGE
    _expand[(min(rows, num_tokens),)](
        work, tokens, blocks, batch.token_ids, batch.positions, batch.slots, batch.query_start, batch.seq_lens,
        batch.sampled, batch.sampled_rows, batch.sampled_lens,
        rows, num_tokens, tokens.stride(0), blocks.stride(0), spans, batch.slots.stride(0),
        GROUPS=groups, BLOCK=block_size, ROWS=triton.next_power_of_2(rows), TOKENS=at_once, num_warps=4,
    )  # fmt: skip


def write_sampled(tokens: Tensor, rows: Tensor, positions: Tensor, token_ids: Tensor) -> None:
    """tokens[rows[i], positions[i]] = max(token_ids[i], 0) for every i with rows[i] ≥ 0.

    A row that could choose no token (−1) may already be in the next step: it computes token 0 there, in vain.
    """
    count = token_ids.shape[0]
    _write_sampled[(1,)](
        tokens, rows, positions, token_ids, count, tokens.stride(0), COUNT=triton.next_power_of_2(count), num_warps=1
    )  # fmt: skip


@triton.jit
def _write_sampled_rows(sampled, sampled_rows, sampled_lens, row, there, table_row, length, end, samples):
    """Sampled rows come first, in order; the others fill the tail. A permutation: every entry is written."""
    before = tl.cumsum(samples, 0) - samples
    place = tl.where(samples > 0, before, tl.sum(samples, 0) + row - before)
    tl.store(sampled + place, tl.where(samples > 0, end - 1, 0).to(tl.int64), there)
    tl.store(sampled_rows + place, tl.where(samples > 0, table_row, -1), there)
    tl.store(sampled_lens + place, tl.where(samples > 0, length, 0), there)


@triton.jit(do_not_specialize=["rows", "num_tokens"])
def _expand(
    work, tokens, blocks, token_ids, positions, slots, query_start, seq_lens, sampled, sampled_rows, sampled_lens,
    rows, num_tokens, token_stride, group_stride, spans, slot_stride,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, TOKENS: tl.constexpr,
):  # fmt: skip
    # A program a row of work. Each repeats the sums over all rows (a few hundred) that say where its tokens stand.
    mine = tl.program_id(0)
    row = tl.arange(0, ROWS)
    there = row < rows
    count = tl.load(work + 2 * rows + row, there, 0)
    first = tl.sum(tl.where(row < mine, count, 0), 0)
    total = tl.sum(count, 0)

    line = tl.load(work + mine).to(tl.int64)
    start_mine, count_mine = tl.load(work + rows + mine), tl.load(work + 2 * rows + mine)
    for done in tl.range(0, count_mine, TOKENS):
        offset = done + tl.arange(0, TOKENS)
        real = offset < count_mine
        position, token = start_mine + offset, first + offset
        tl.store(
            token_ids + token, tl.load(tokens + line * token_stride + position, real, 0).to(tl.int64), real
        )
        tl.store(positions + token, position.to(tl.int64), real)
        for group in tl.static_range(GROUPS):
            page_at = blocks + group * group_stride + line * spans + position // BLOCK
            page = tl.load(page_at, real, -1).to(tl.int64)
            slot = tl.where(page >= 0, page * BLOCK + position % BLOCK, -1)
            tl.store(slots + group * slot_stride + token, slot, real)
    for done in tl.range(total + mine * TOKENS, num_tokens, tl.num_programs(0) * TOKENS):
        token = done + tl.arange(0, TOKENS)
        padding = token < num_tokens
        tl.store(token_ids + token, tl.zeros([TOKENS], tl.int64), padding)
        tl.store(positions + token, tl.zeros([TOKENS], tl.int64), padding)
        for group in tl.static_range(GROUPS):
            tl.store(slots + group * slot_stride + token, tl.full([TOKENS], -1, tl.int64), padding)

    if mine == 0:
        table_row, start = tl.load(work + row, there, 0), tl.load(work + rows + row, there, 0)
        end = tl.cumsum(count, 0)
        length = tl.where(count > 0, start + count, 0)
        tl.store(query_start, 0)
        tl.store(query_start + 1 + row, end, there)
        tl.store(seq_lens + row, length, there)
        samples = tl.load(work + 3 * rows + row, there, 0)
        _write_sampled_rows(sampled, sampled_rows, sampled_lens, row, there, table_row, length, end, samples)


@triton.jit(do_not_specialize=["count"])
def _write_sampled(tokens, rows, positions, token_ids, count, token_stride, COUNT: tl.constexpr):
    i = tl.arange(0, COUNT)
    row = tl.load(rows + i, i < count, -1)
    position = tl.load(positions + i, i < count, 0)
    token = tl.maximum(tl.load(token_ids + i, i < count, 0).to(tl.int32), 0)
    tl.store(tokens + row.to(tl.int64) * token_stride + position, token, row >= 0)
