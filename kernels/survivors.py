"""Who survives min_p, top-k and top-p, without sorting: where to cut each row of logits, on the device.

    ranks: by logit, equal ones by lower id.  w = exp((l − max l) / T)
    min_p keeps w ≥ min_p; top_k the first k ranks of those; top_p the shortest prefix of those whose share of
    their weight reaches top_p. Each keeps a prefix of the ranks, so the result is the last survivor:
    (cut, last): token i survives if key(l[i]) > cut, or key(l[i]) = cut and i ≤ last.

Place in the path: gpu_sampler, for rows that are drawn and filtered → here → `race`. The rule is that of
`kernels/reference_sampling.survivors`. Knows no request; settings come from the row table.

A row is cut into pieces of 8,192 logits, a program each. Per piece: (1) the highest logit; (2) a cumulative
histogram of counts and weights over 14 steps below the highest, which leaves one bin for the last survivor;
(3) the same again inside that bin, if more than 1,024 tokens reach it; (4) the tokens that are left go to a list.
(5) One program a row then finds the last survivor among the listed tokens with float64 weights, halving (by 16)
the range of (logit, id) pairs, an order without ties. Pieces have a fixed size and their sums a fixed order: a
row's result does not depend on the batch. Weights outside the list are fp32, so the nucleus is exact unless its
share comes within 1e-6 of top_p. The list has no fixed order, which moves its float64 sums by 1e-16.

Bytes: 4·V a row and pass: three passes (1, 2, 4) for most rows, four where (3) is needed, none for the others.
Floor on an H200 (V = 128,256): 256 rows 88 µs; 32 rows lie in the cache after the first pass, 11 µs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.last_survivor import (
    ABOVE_WEIGHT,
    RANGE_ABOVE,
    RANGE_HI,
    RANGE_LO,
    TAIL_WEIGHT,
    cut_listed,
    effective_top_k,
    is_searched,
    is_usable,
    lowest_kept,
    row_peak,
)
from kernels.sampling_table import (
    ID_BITS,
    KEY_MAX,
    MIN_P,
    TEMPERATURE,
    TOP_P,
    is_filtered,
    order_key,
    real_setting,
)

__all__ = ["Survivors", "allocate_survivors", "find_survivors"]

_PIECE = 8192
_MEASURED = 256
"""Logits beside 16 thresholds: what leaves three programs room on a multiprocessor."""
_LISTED = 512
_SMALL = 1024
_STEPS = tl.constexpr(16)
"""Columns of a histogram: 14 steps, the lower end of the range, and everything."""
_END = tl.constexpr(14)
_ALL = tl.constexpr(15)
_DONE = tl.constexpr(3)
"""Column of a range: whether it needs no second histogram."""


@dataclass(frozen=True, slots=True)
class Survivors:
    """The cuts of up to S rows, and the scratch space of the search. Allocated once."""

    cut: Tensor
    """[S] int32, see the module."""
    last: Tensor
    """[S] int32."""
    peaks: Tensor
    """[S, pieces] fp32; +inf where a logit is not a number."""
    thresholds: Tensor
    """[2, S, 16] int32 keys, falling."""
    counts: Tensor
    """[2, S, pieces, 16] int32: tokens below each threshold."""
    weights: Tensor
    """[2, S, pieces, 16] fp32: their weight."""
    ranges: Tensor
    """[2, S, 4] int32 after each histogram: lowest key, highest key, tokens above, final or not."""
    range_weights: Tensor
    """[2, S, 2] float64: weight above the range, weight below it."""
    listed: Tensor
    """[S, V] int32: ids of the tokens in the range, in any order."""
    num_listed: Tensor
    """[S] int32."""
    piece: int


def allocate_survivors(
    max_rows: int, vocab_size: int, device: torch.device, *, piece: int = _PIECE
) -> Survivors:
    assert vocab_size <= 1 << ID_BITS.value, f"{vocab_size} tokens"
    pieces = triton.cdiv(vocab_size, piece)

    def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    return Survivors(
        cut=zeros(max_rows),
        last=zeros(max_rows),
        peaks=zeros(max_rows, pieces, dtype=torch.float32),
        thresholds=zeros(2, max_rows, _STEPS.value),
        counts=zeros(2, max_rows, pieces, _STEPS.value),
        weights=zeros(2, max_rows, pieces, _STEPS.value, dtype=torch.float32),
        ranges=zeros(2, max_rows, 4),
        range_weights=zeros(2, max_rows, 2, dtype=torch.float64),
        listed=zeros(max_rows, vocab_size),
        num_listed=zeros(max_rows),
        piece=piece,
    )


def find_survivors(
    out: Survivors, logits: Tensor, rows: Tensor, table: Tensor, *, small: int = _SMALL, chunk: int = _LISTED
) -> None:
    """Fill `out.cut` and `out.last` for the filtered ones among S rows; the others' stay as they are.

    logits [S, V] fp32 after all edits; rows [S] int32 line of each in `table`, −1 for none. A row without a finite
    logit, or with one that is not a number, has no survivor. The keyword arguments are for tests.
    """
    count, vocab = logits.shape
    assert logits.is_contiguous()
    pieces = out.peaks.shape[1]
    grid = (count, pieces)
    fixed = {"PIECES": triton.next_power_of_2(pieces), "num_warps": 8}
    _peaks[grid](logits, rows, table, out.peaks, out.num_listed, vocab, PIECE=out.piece, num_warps=8)
    for level in (0, 1):
        _measure[grid](
            logits, rows, table, out.peaks, out.thresholds, out.counts, out.weights, out.ranges, out.range_weights,
            vocab, pieces, out.ranges.shape[1], small,
            LEVEL=level, PIECE=out.piece, CHUNK=min(chunk, _MEASURED, out.piece), **fixed,
        )  # fmt: skip
    _collect[grid](
        logits, rows, table, out.peaks, out.thresholds, out.counts, out.weights, out.ranges, out.range_weights,
        out.listed, out.num_listed, vocab, pieces, out.ranges.shape[1], PIECE=out.piece, **fixed,
    )  # fmt: skip
    cut_listed(
        logits, rows, table, out.peaks, out.ranges[1], out.range_weights[1], out.listed, out.num_listed, out.cut,
        out.last, chunk=chunk,
    )  # fmt: skip


@triton.jit
def _peaks(logits, rows, table, peaks, num_listed, vocab, PIECE: tl.constexpr):
    s = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1)
    row = tl.load(rows + s)
    if row < 0:
        return
    if not is_filtered(table, row, vocab):
        return
    token = p * PIECE + tl.arange(0, PIECE)
    logit = tl.load(logits + s * vocab + token, token < vocab, -float("inf"))
    logit = tl.where(logit != logit, float("inf"), logit)
    tl.store(peaks + s * tl.num_programs(1) + p, tl.max(logit, 0))
    if p == 0:
        tl.store(num_listed + s, 0)


@triton.jit
def _narrow(
    thresholds, counts, weights, s, pieces, top_k, top_p, hi, above, above_weight, PIECES: tl.constexpr
):
    """From one histogram: the bin of the last survivor, and what lies above and below it.

    → lowest key, highest key, tokens down to it, tokens above, weight above, weight below. `hi`, `above` and
    `above_weight` hold for the first bin."""
    step = tl.arange(0, _STEPS)
    p = tl.arange(0, PIECES)
    at = (s * pieces + p)[:, None] * _STEPS + step[None, :]
    there = (p < pieces)[:, None]
    below = tl.sum(tl.load(counts + at, there, 0), 0)
    below_weight = tl.sum(tl.load(weights + at, there, 0).to(tl.float64), 0)
    threshold = tl.load(thresholds + s * _STEPS + step)
    total = tl.sum(tl.where(step == _ALL, below, 0), 0)
    total_weight = tl.sum(tl.where(step == _ALL, below_weight, 0), 0)
    reached = tl.where(
        top_k > 0,
        total - below >= tl.minimum(top_k, total),
        total_weight - below_weight >= top_p * total_weight,
    )
    first = tl.min(tl.where(reached, tl.minimum(step, _END), _END), 0)
    lo = tl.sum(tl.where(step == first, threshold, 0), 0)
    down_to = total - tl.sum(tl.where(step == first, below, 0), 0)
    tail = tl.sum(tl.where(step == first, below_weight, 0), 0)
    before = step == first - 1
    hi = tl.where(first > 0, tl.sum(tl.where(before, threshold, 0), 0) - 1, hi)
    above = tl.where(first > 0, total - tl.sum(tl.where(before, below, 0), 0), above)
    outside = total_weight - tl.sum(tl.where(before, below_weight, 0), 0)
    return lo, hi, down_to, above, tl.where(first > 0, outside, above_weight), tail


@triton.jit
def _measure(
    logits, rows, table, peaks, thresholds, counts, weights, ranges, range_weights, vocab, pieces, capacity, small,
    LEVEL: tl.constexpr, PIECE: tl.constexpr, CHUNK: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    s = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1)
    row = tl.load(rows + s)
    if row < 0:
        return
    if not is_searched(table, row, vocab):
        return
    peak = row_peak(peaks, s, pieces, PIECES)
    if not is_usable(peak):
        return
    top_k = effective_top_k(table, row, vocab)
    temperature = real_setting(table, row, TEMPERATURE).to(tl.float32)
    floor = lowest_kept(peak, temperature, real_setting(table, row, MIN_P))
    step = tl.arange(0, _STEPS)
    if LEVEL == 0:
        # 0.25 to 22 below the highest, in units of the temperature where weights count.
        scale = tl.where(top_k > 0, 1.0, temperature)
        threshold = tl.maximum(order_key(peak - scale * tl.exp2(step * 0.5 - 2)), floor)
        threshold = tl.where(step >= _END, floor, threshold)
    else:
        top_p = real_setting(table, row, TOP_P)
        lo, hi, down_to, above, above_weight, tail = _narrow(
            thresholds, counts, weights, s, pieces, top_k, top_p, KEY_MAX, 0, 0.0, PIECES
        )
        done = down_to <= small
        if p == 0:
            at = ranges + s * 4
            tl.store(at + RANGE_LO, lo)
            tl.store(at + RANGE_HI, tl.where(done, KEY_MAX, hi))
            tl.store(at + RANGE_ABOVE, tl.where(done, 0, above))
            tl.store(at + _DONE, done.to(tl.int32))
            tl.store(range_weights + s * 2 + ABOVE_WEIGHT, tl.where(done, 0.0, above_weight))
            tl.store(range_weights + s * 2 + TAIL_WEIGHT, tail)
        if done:
            return
        top = tl.minimum(hi, order_key(peak))
        span = top.to(tl.int64) - lo
        threshold = (top - span * (tl.minimum(step, _END) + 1) // (_END + 1)).to(tl.int32)
    threshold = tl.where(step == _ALL, KEY_MAX, threshold)
    thresholds += (LEVEL * capacity + s) * _STEPS
    if p == 0:
        tl.store(thresholds + step, threshold)
    at = ((LEVEL * capacity + s) * pieces + p) * _STEPS + step
    count, weight = _below(
        logits + s * vocab, p * PIECE, vocab, peak, temperature, floor, threshold, PIECE, CHUNK
    )
    tl.store(counts + at, count)
    tl.store(weights + at, weight)


@triton.jit
def _below(
    logits, start, vocab, peak, temperature, floor, threshold, PIECE: tl.constexpr, CHUNK: tl.constexpr
):
    """How many of a piece's tokens lie below each threshold, and their weight."""
    count = tl.zeros([CHUNK, _STEPS], tl.int32)
    weight = tl.zeros([CHUNK, _STEPS], tl.float32)
    for offset in range(0, PIECE, CHUNK):
        token = start + offset + tl.arange(0, CHUNK)
        logit = tl.load(logits + token, token < vocab, -float("inf"))
        key = order_key(logit)
        below = (key >= floor)[:, None] & (key[:, None] < threshold[None, :])
        count += below.to(tl.int32)
        weight += tl.where(below, tl.exp((logit - peak) / temperature)[:, None], 0.0)
    return tl.sum(count, 0), tl.sum(weight, 0)


@triton.jit
def _collect(
    logits, rows, table, peaks, thresholds, counts, weights, ranges, range_weights, listed, num_listed,
    vocab, pieces, capacity, PIECE: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    s = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1)
    row = tl.load(rows + s)
    if row < 0:
        return
    if not is_searched(table, row, vocab):
        return
    if not is_usable(row_peak(peaks, s, pieces, PIECES)):
        return
    top_k = effective_top_k(table, row, vocab)
    top_p = real_setting(table, row, TOP_P)
    at = ranges + s * 4
    lo, hi, above = tl.load(at + RANGE_LO), tl.load(at + RANGE_HI), tl.load(at + RANGE_ABOVE)
    above_weight = tl.load(range_weights + s * 2 + ABOVE_WEIGHT)
    tail = tl.load(range_weights + s * 2 + TAIL_WEIGHT)
    if tl.load(at + _DONE) == 0:
        second = capacity * _STEPS
        lo, hi, _, above, above_weight, tail = _narrow(
            thresholds + second, counts + second * pieces, weights + second * pieces,
            s, pieces, top_k, top_p, hi, above, above_weight, PIECES,
        )  # fmt: skip
    # The weight that top_p is a share of is then that of the first k, whose last is not known yet: all are listed.
    both = (top_k > 0) & (top_p < 1)
    hi = tl.where(both, KEY_MAX, hi)
    if p == 0:
        at = ranges + (capacity + s) * 4
        tl.store(at + RANGE_LO, lo)
        tl.store(at + RANGE_HI, hi)
        tl.store(at + RANGE_ABOVE, tl.where(both, 0, above))
        tl.store(range_weights + (capacity + s) * 2 + ABOVE_WEIGHT, tl.where(both, 0.0, above_weight))
        tl.store(range_weights + (capacity + s) * 2 + TAIL_WEIGHT, tail)
    token = p * PIECE + tl.arange(0, PIECE)
    key = order_key(tl.load(logits + s * vocab + token, token < vocab, -float("inf")))
    inside = ((key >= lo) & (key <= hi)).to(tl.int32)
    count = tl.sum(inside, 0)
    if count > 0:
        place = tl.atomic_add(num_listed + s, count) + tl.cumsum(inside, 0) - 1
        tl.store(listed + s * vocab + place, token, inside > 0)
