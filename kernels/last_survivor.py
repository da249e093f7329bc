"""The last survivor of a row among a few listed tokens: exact, by weights in float64.

    tokens are ranked by logit, equal ones by lower id; w = exp((l − max l) / T)
    top_k: the last of the first k;  top_p: the first whose share of the weight, with all ranks before it, reaches
    top_p; of both, top_p of the first k.

Place in the path: the last step of `survivors`, which knows how many tokens, and how much weight, lie outside the
list. Also here: what both need to know of a row. A pair (logit, id) is one integer, an order without ties; the range
that holds the last survivor is cut into 16 until one pair is left: at most 13 walks over the list, without sorting.
A program a row. Bytes: 8 a listed token and walk, from the cache; bound by latency (some 10 to 30 µs, predicted).
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from kernels.sampling_table import (
    ID_BITS,
    ID_MAX,
    KEY_MAX,
    MIN_P,
    TEMPERATURE,
    TOP_K,
    TOP_P,
    int_setting,
    is_filtered,
    key_logit,
    order_key,
    real_setting,
)

__all__ = ["RANGE_ABOVE", "RANGE_HI", "RANGE_LO", "cut_listed"]

RANGE_LO, RANGE_HI, RANGE_ABOVE = (tl.constexpr(i) for i in range(3))
"""Columns of a row's range: lowest key, highest key, number of tokens above it."""
ABOVE_WEIGHT, TAIL_WEIGHT = tl.constexpr(0), tl.constexpr(1)
_TRIES = tl.constexpr(16)


def cut_listed(
    logits: Tensor,
    rows: Tensor,
    table: Tensor,
    peaks: Tensor,
    ranges: Tensor,
    range_weights: Tensor,
    listed: Tensor,
    num_listed: Tensor,
    cut: Tensor,
    last: Tensor,
    *,
    chunk: int,
) -> None:
    """Fill cut and last [S] int32 of the filtered rows.

    logits [S, V] fp32; rows [S] int32 into `table`; peaks [S, pieces] fp32, their maximum is the row's; ranges
    [S, 4] int32; range_weights [S, 2] float64, the weight above and below the range; listed [S, V] int32, of which
    num_listed [S] int32 are the tokens of the range, in any order.
    """
    count, vocab = logits.shape
    pieces = peaks.shape[1]
    _cut[(count,)](
        logits, rows, table, peaks, ranges, range_weights, listed, num_listed, cut, last,
        vocab, pieces, CHUNK=chunk, PIECES=triton.next_power_of_2(pieces), num_warps=8,
    )  # fmt: skip


@triton.jit
def is_searched(table, row, vocab):
    """Whether the row's cut depends on more than its highest logit."""
    top_k = int_setting(table, row, TOP_K)
    cut = ((top_k > 0) & (top_k < vocab)) | (real_setting(table, row, TOP_P) < 1)
    return (real_setting(table, row, TEMPERATURE) > 0) & cut


@triton.jit
def row_peak(peaks, s, pieces, PIECES: tl.constexpr):
    p = tl.arange(0, PIECES)
    return tl.max(tl.load(peaks + s * pieces + p, p < pieces, -float("inf")), 0)


@triton.jit
def is_usable(peak):
    return (peak > -float("inf")) & (peak < float("inf"))


@triton.jit
def effective_top_k(table, row, vocab):
    """0: off, also where it is no smaller than the vocabulary."""
    top_k = int_setting(table, row, TOP_K)
    return tl.where((top_k > 0) & (top_k < vocab), top_k, 0).to(tl.int32)


@triton.jit
def token_weight(logit, peak, temperature):
    """float64, as the oracle has it: the quotients are fp32."""
    x = tl.div_rn(logit, temperature).to(tl.float64)
    return tl.exp(x - tl.div_rn(peak, temperature).to(tl.float64))


@triton.jit
def lowest_kept(peak, temperature, min_p):
    """The lowest key that min_p keeps; without min_p, of a finite logit."""
    near = peak
    if min_p > 0:
        top = tl.div_rn(peak, temperature).to(tl.float64)
        near = ((top + tl.log(min_p)) * temperature.to(tl.float64)).to(tl.float32)
    # The product may be some keys off; the keys around it are tried.
    key = order_key(near) - 8 + tl.arange(0, 16)
    kept = (token_weight(key_logit(key), peak, temperature) >= min_p) & (key <= order_key(peak))
    floor = tl.min(tl.where(kept, key, order_key(peak)), 0)
    return tl.where(min_p > 0, floor, order_key(-float("inf")) + 1)


@triton.jit
def _pairs(logits, listed, start, count, peak, temperature, CHUNK: tl.constexpr):
    """Some listed tokens as (logit, id) pairs in one integer, and their weights; below all others if none."""
    i = start + tl.arange(0, CHUNK)
    token = tl.load(listed + i, i < count, 0)
    logit = tl.load(logits + token)
    pair = (order_key(logit).to(tl.int64) << ID_BITS) + (token ^ ID_MAX)
    weight = token_weight(logit, peak, temperature)
    return tl.where(i < count, pair, -(1 << 62)), tl.where(i < count, weight, 0.0)


@triton.jit
def _last_pair(
    logits, listed, count, peak, temperature, lo, hi, goal, BY_WEIGHT: tl.constexpr, CHUNK: tl.constexpr
):
    """The highest pair in lo … hi such that those from it up reach `goal`, a number or a weight; `lo` if none."""
    while lo < hi:
        step = (hi - lo + _TRIES - 1) // _TRIES
        tried = tl.minimum(lo + step * (1 + tl.arange(0, _TRIES)), hi)
        sums = tl.zeros([_TRIES], tl.float64)
        for start in range(0, count, CHUNK):
            pair, weight = _pairs(logits, listed, start, count, peak, temperature, CHUNK)
            value = weight if BY_WEIGHT else tl.full([CHUNK], 1.0, tl.float64)
            sums += tl.sum(tl.where(pair[:, None] >= tried[None, :], value[:, None], 0.0), 0)
        reached = sums >= goal
        hi = tl.min(tl.where(reached, hi, tried - 1), 0)
        lo = tl.max(tl.where(reached, tried, lo), 0)
        hi = tl.maximum(hi, lo)
    return lo


@triton.jit
def _cut(
    logits, rows, table, peaks, ranges, range_weights, listed, num_listed, cut, last, vocab, pieces,
    CHUNK: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    s = tl.program_id(0).to(tl.int64)
    row = tl.load(rows + s)
    if row < 0:
        return
    if not is_filtered(table, row, vocab):
        return
    peak = row_peak(peaks, s, pieces, PIECES)
    if not is_usable(peak):
        tl.store(cut + s, KEY_MAX)
        return
    temperature = real_setting(table, row, TEMPERATURE).to(tl.float32)
    if not is_searched(table, row, vocab):
        tl.store(cut + s, lowest_kept(peak, temperature, real_setting(table, row, MIN_P)))
        tl.store(last + s, vocab)
        return
    logits += s * vocab
    listed += s * vocab
    count = tl.load(num_listed + s)
    at = ranges + s * 4
    lowest = tl.load(at + RANGE_LO).to(tl.int64) << ID_BITS
    hi = tl.minimum(tl.load(at + RANGE_HI), order_key(peak)).to(tl.int64)
    highest = (hi << ID_BITS) + ID_MAX
    pair = lowest
    above_weight = tl.load(range_weights + s * 2 + ABOVE_WEIGHT)
    rest = above_weight + tl.load(range_weights + s * 2 + TAIL_WEIGHT)
    top_k = effective_top_k(table, row, vocab)
    if top_k > 0:
        goal = (top_k - tl.load(at + RANGE_ABOVE)).to(tl.float64)
        pair = _last_pair(logits, listed, count, peak, temperature, lowest, highest, goal, False, CHUNK)
        rest = tl.zeros([], tl.float64)
    top_p = real_setting(table, row, TOP_P)
    if top_p < 1:
        total = rest
        for start in range(0, count, CHUNK):
            found, weight = _pairs(logits, listed, start, count, peak, temperature, CHUNK)
            total += tl.sum(tl.where(found >= pair, weight, 0.0), 0)
        # At least one token, also at top_p 0.
        goal = tl.maximum(top_p * total - above_weight, 1e-300)
        pair = _last_pair(logits, listed, count, peak, temperature, pair, highest, goal, True, CHUNK)
    tl.store(cut + s, (pair >> ID_BITS).to(tl.int32))
    tl.store(last + s, ((pair & ID_MAX) ^ ID_MAX).to(tl.int32))
