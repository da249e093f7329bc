"""Log-probabilities of the raw logits: of the chosen token, its rank, and the most likely tokens.

    log p[i] = l[i] − max l − log Σ exp(l − max l);   rank = 1 + number of logits above the chosen one

Place in the path: gpu_sampler, last of the general graph → here; rows that did not ask leave at once. Knows no
request. A row is cut into pieces of 8,192 logits, a program each, which takes its highest tokens one after the
other, as many as the row asked for, as (logit, id) pairs in one integer: equal logits go by lower id. Then one
program a row does the same with the pieces' findings.

Bytes: 4·V a row, read once: 29 µs at 256 rows of 128,256 on an H200; each token asked for costs a search in
registers besides.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.sampling_table import (
    ID_BITS,
    ID_MAX,
    NUM_LOGPROBS,
    int_setting,
    is_edited,
    key_logit,
    order_key,
)

__all__ = ["MAX_LOGPROBS", "Logprobs", "allocate_logprobs", "find_logprobs"]

MAX_LOGPROBS = 20
_PIECE = 8192
_TOP = tl.constexpr(MAX_LOGPROBS)
_PLACES = tl.constexpr(32)
_NO_PAIR = tl.constexpr(-(2**62))


@dataclass(frozen=True, slots=True)
class Logprobs:
    """Results of up to S rows, and what their pieces found. Allocated once."""

    found: Tensor
    """[S, 42] int32: rank, 20 ids; then as bits of fp32 the log-probability of the chosen token and of those 20.
    Valid up to the number that a row asked for."""
    pairs: Tensor
    """[S, pieces, 32] int64."""
    sums: Tensor
    """[S, pieces, 2] fp32: the highest logit, and the sum of exponentials relative to it."""
    above: Tensor
    """[S, pieces] int32: logits above the chosen one."""
    piece: int


def allocate_logprobs(
    max_rows: int, vocab_size: int, device: torch.device, *, piece: int = _PIECE
) -> Logprobs:
    pieces = triton.cdiv(vocab_size, piece)

    def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    return Logprobs(
        found=zeros(max_rows, 2 * (1 + MAX_LOGPROBS)),
        pairs=zeros(max_rows, pieces, _PLACES.value, dtype=torch.int64),
        sums=zeros(max_rows, pieces, 2, dtype=torch.float32),
        above=zeros(max_rows, pieces),
        piece=piece,
    )


def find_logprobs(
    out: Logprobs, logits: Tensor, kept: Tensor, rows: Tensor, chosen: Tensor, table: Tensor
) -> None:
    """Fill `out.found` for the rows that asked.

    The raw logits are kept [≥ S, V] for edited rows, logits [S, V] for the others, both fp32; rows [S] int32 into
    `table`; chosen [S] int32, −1 where there is none.
    """
    count, vocab = logits.shape
    assert logits.is_contiguous()
    pieces = out.above.shape[1]
    _pieces[(count, pieces)](
        logits, kept, rows, chosen, table, out.pairs, out.sums, out.above, vocab, PIECE=out.piece, num_warps=8
    )
    _merge[(count,)](
        logits, kept, rows, chosen, table, out.pairs, out.sums, out.above, out.found, vocab, pieces,
        PIECES=triton.next_power_of_2(pieces), num_warps=4,
    )  # fmt: skip


@triton.jit
def _mark(logits, kept, chosen, s, vocab, edited):
    """The raw logit of the chosen token; of token 0 where there is none."""
    at = s * vocab + tl.maximum(tl.load(chosen + s), 0)
    return tl.load(kept + at) if edited else tl.load(logits + at)


@triton.jit
def _pieces(logits, kept, rows, chosen, table, pairs, sums, above, vocab, PIECE: tl.constexpr):
    s = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1)
    row = tl.load(rows + s)
    if row < 0:
        return
    wanted = int_setting(table, row, NUM_LOGPROBS)
    if wanted < 0:
        return
    edited = is_edited(table, row)
    own = p * PIECE + tl.arange(0, PIECE)
    there = own < vocab
    if edited:
        logit = tl.load(kept + s * vocab + own, there, -float("inf"))
    else:
        logit = tl.load(logits + s * vocab + own, there, -float("inf"))
    peak = tl.max(logit, 0)
    base = tl.where(peak > -float("inf"), peak, 0.0)
    at = s * tl.num_programs(1) + p
    tl.store(sums + at * 2, base)
    tl.store(sums + at * 2 + 1, tl.sum(tl.exp(logit - base), 0))
    mark = _mark(logits, kept, chosen, s, vocab, edited)
    tl.store(above + at, tl.sum((logit > mark).to(tl.int32), 0))
    pair = (order_key(logit).to(tl.int64) << ID_BITS) + (own ^ ID_MAX)
    pair = tl.where(there, pair, _NO_PAIR)
    for i in range(wanted):
        best = tl.max(pair, 0)
        tl.store(pairs + at * _PLACES + i, best)
        pair = tl.where(pair == best, _NO_PAIR, pair)


@triton.jit
def _merge(
    logits, kept, rows, chosen, table, pairs, sums, above, found, vocab, pieces, PIECES: tl.constexpr
):  # fmt: skip
    s = tl.program_id(0).to(tl.int64)
    row = tl.load(rows + s)
    if row < 0:
        return
    wanted = int_setting(table, row, NUM_LOGPROBS)
    if wanted < 0:
        return
    p = tl.arange(0, PIECES)
    at = s * pieces + p
    base = tl.load(sums + at * 2, p < pieces, -float("inf"))
    part = tl.load(sums + at * 2 + 1, p < pieces, 0.0)
    peak = tl.max(base, 0)
    shift = peak + tl.log(tl.sum(part * tl.exp(base - peak), 0))
    mark = _mark(logits, kept, chosen, s, vocab, is_edited(table, row))
    found += s * 2 * (1 + _TOP)
    tl.store(found, 1 + tl.sum(tl.load(above + at, p < pieces, 0), 0))
    tl.store(found + 1 + _TOP, (mark - shift).to(tl.int32, bitcast=True))
    place = tl.arange(0, PIECES * _PLACES)
    there = (place // _PLACES < pieces) & (place % _PLACES < wanted)
    pair = tl.load(pairs + s * pieces * _PLACES + place, there, _NO_PAIR)
    for i in range(wanted):
        best = tl.max(pair, 0)
        logit = key_logit((best >> ID_BITS).to(tl.int32))
        tl.store(found + 1 + i, ((best & ID_MAX) ^ ID_MAX).to(tl.int32))
        tl.store(found + 2 + _TOP + i, (logit - shift).to(tl.int32, bitcast=True))
        pair = tl.where(pair == best, _NO_PAIR, pair)
