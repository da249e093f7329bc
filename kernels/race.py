"""The draw on the device: the highest logit, or the winner of an exponential race between the survivors.

    greedy rows: argmax of l.   drawn rows: argmax over the survivors of l / T − log E, with E the exponential noise
    of (seed, token, position): a token wins with its probability among the survivors. Equal scores: the lower id.

Place in the path: gpu_sampler → here, after `survivors` has cut the filtered rows. Knows no request. Noise bits are
those of `kernels/philox.py`; they are made four tokens at a time, and only where a group of 1,024 tokens has a
survivor. A row is cut into pieces of 8,192 logits, a program each; then one program a row takes the best of them.

Bytes: 4·V a row, read once: 29 µs at 256 rows of 128,256 on an H200. Rows without filter pay for noise at every
token instead: some 80 operations, 90 µs at 256 rows (predicted).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels import philox
from kernels.sampling_table import (
    SEED,
    TEMPERATURE,
    int_setting,
    is_filtered,
    order_key,
    real_setting,
)

__all__ = ["Race", "allocate_race", "run_race"]

_PIECE = 8192
_GROUP = 1024
_STREAM = tl.constexpr(philox.SAMPLE_STREAM)
_NOBODY = tl.constexpr(2**31 - 1)


@dataclass(frozen=True, slots=True)
class Race:
    """The best of each piece, for up to S rows. Allocated once."""

    scores: Tensor
    """[S, pieces] fp32."""
    winners: Tensor
    """[S, pieces] int32."""
    piece: int


def allocate_race(max_rows: int, vocab_size: int, device: torch.device, *, piece: int = _PIECE) -> Race:
    shape = (max_rows, triton.cdiv(vocab_size, piece))
    return Race(
        torch.zeros(shape, dtype=torch.float32, device=device),
        torch.zeros(shape, dtype=torch.int32, device=device),
        piece,
    )


def run_race(
    race: Race,
    logits: Tensor,
    rows: Tensor,
    positions: Tensor,
    table: Tensor,
    cut: Tensor,
    last: Tensor,
    out: Tensor,
    *,
    group: int = _GROUP,
) -> None:
    """out[s] = the token of each row s with rows[s] ≥ 0, or −1 if it has none whose logit is finite.

    logits [S, V] fp32 after all edits; rows, positions (of the token to be drawn), out [S] int32; cut and last [S]
    as `survivors` gives them, read for filtered rows.
    """
    count, vocab = logits.shape
    assert logits.is_contiguous()
    pieces = race.scores.shape[1]
    _race[(count, pieces)](
        logits, rows, positions, table, cut, last, race.scores, race.winners, vocab,
        PIECE=race.piece, GROUP=min(group, race.piece), num_warps=4,
    )  # fmt: skip
    _pick[(count,)](
        logits, rows, race.scores, race.winners, out, vocab, pieces, PIECES=triton.next_power_of_2(pieces), num_warps=1
    )  # fmt: skip


@triton.jit
def _race(
    logits, rows, positions, table, cut, last, scores, winners, vocab, PIECE: tl.constexpr, GROUP: tl.constexpr
):  # fmt: skip
    s = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1)
    row = tl.load(rows + s)
    if row < 0:
        return
    temperature = real_setting(table, row, TEMPERATURE).to(tl.float32)
    drawn = temperature > 0
    divisor = tl.where(drawn, temperature, 1.0)
    seed = int_setting(table, row, SEED)
    position = tl.load(positions + s)
    lowest, until = order_key(-float("inf")), vocab
    if is_filtered(table, row, vocab):
        lowest, until = tl.load(cut + s), tl.load(last + s)
    best = tl.full([GROUP], -float("inf"), tl.float32)
    winner = tl.full([GROUP], _NOBODY, tl.int32)
    for start in range(p * PIECE, tl.minimum((p + 1) * PIECE, vocab), GROUP):
        token = start + tl.arange(0, GROUP)
        logit = tl.load(logits + s * vocab + token, token < vocab, -float("inf"))
        # What is not a number wins, and is refused in the end.
        logit = tl.where(logit != logit, float("inf"), logit)
        key = order_key(logit)
        survives = (token < vocab) & ((key > lowest) | ((key == lowest) & (token <= until)))
        if tl.max(survives.to(tl.int32), 0) > 0:
            score = tl.div_rn(logit, divisor)
            if drawn:
                quad = start // 4 + tl.arange(0, GROUP // 4)
                w0, w1, w2, w3 = philox.quad_words(seed, quad, position, _STREAM)
                bits = tl.interleave(tl.interleave(w0, w2), tl.interleave(w1, w3))
                score -= tl.log(philox.exponential_of(bits))
            better = survives & (score > best)
            best = tl.where(better, score, best)
            winner = tl.where(better, token, winner)
    score = tl.max(best, 0)
    at = s * tl.num_programs(1) + p
    tl.store(scores + at, score)
    tl.store(winners + at, tl.min(tl.where(best == score, winner, _NOBODY), 0))


@triton.jit
def _pick(logits, rows, scores, winners, out, vocab, pieces, PIECES: tl.constexpr):
    s = tl.program_id(0).to(tl.int64)
    if tl.load(rows + s) < 0:
        return
    p = tl.arange(0, PIECES)
    there = p < pieces
    score = tl.load(scores + s * pieces + p, there, -float("inf"))
    winner = tl.load(winners + s * pieces + p, there, _NOBODY)
    token = tl.min(tl.where(score == tl.max(score, 0), winner, _NOBODY), 0)
    logit = tl.load(logits + s * vocab + token, token < vocab, -float("inf"))
    finite = (logit > -float("inf")) & (logit < float("inf"))
    tl.store(out + s, tl.where(finite, token, -1))
