"""The likeliest token of every row, to the host's buffer and to the row tables, for steps without any sampling.

    id[s] = argmin { v : logits[s, v] = max logits[s] },   −1 if that is not finite (or anything is NaN)

Place in the path: the GPU runner, behind the head → here: the maxima of pieces of the vocabulary first, then one
program a row. Knows no model and no settings; rows that want anything else go through `gpu_sampler`. The same in plain
torch is `reference_sampling.choose_greedily`. Bytes: 4·S·V once.
Measured (H200, 128,256 logits): one row 19 µs behind the head with the widening to fp32 and all launches, 48 with torch's
maximum and what followed it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.dependent_launch import launch_dependents, pdl_options, wait_for_front

__all__ = ["choose_greedily_triton"]

_PIECE = 2048


def choose_greedily_triton(
    logits: Tensor, token_ids: Tensor, tokens: Tensor, rows: Tensor, positions: Tensor, piece: int = _PIECE
) -> None:
    """token_ids[s] = the likeliest of logits[s] [S, V] fp32, int32; tokens[rows[s], positions[s]] = max(that, 0) where
    rows[s] ≥ 0. tokens int32 [table rows, positions], rows and positions int32 [S]. `piece` is for tests."""
    count, vocab = logits.shape
    assert logits.stride(1) == 1
    pieces = triton.cdiv(vocab, piece)
    best = torch.empty(count, pieces, dtype=torch.float32, device=logits.device)
    ids = torch.empty(count, pieces, dtype=torch.int32, device=logits.device)
    early = pdl_options(logits)
    _best_of_piece[(pieces, count)](
        logits, best, ids, vocab, logits.stride(0), PIECE=piece, PDL=logits.is_cuda, num_warps=4, **early
    )  # fmt: skip
    _best_of_row[(count,)](
        best, ids, token_ids, tokens, rows, positions, pieces, tokens.stride(0),
        PIECES=triton.next_power_of_2(pieces), PDL=logits.is_cuda, num_warps=1, **early,
    )  # fmt: skip


@triton.jit
def _first_of_best(value, index):
    """The highest value and its lowest index."""
    best = tl.max(value, 0)
    return best, tl.min(tl.where(value == best, index, 2147483647), 0)


@triton.jit
def _best_of_piece(logits, best, ids, vocab, logits_row, PIECE: tl.constexpr, PDL: tl.constexpr):
    launch_dependents(PDL)
    wait_for_front(PDL)
    piece, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    token = piece * PIECE + tl.arange(0, PIECE)
    value = tl.load(logits + row * logits_row + token, token < vocab, -float("inf"))
    # No comparison finds a NaN: it counts as infinite, which no row's best may be either.
    highest, index = _first_of_best(tl.where(value == value, value, float("inf")), token)
    at = row * tl.num_programs(0) + piece
    tl.store(best + at, highest)
    tl.store(ids + at, index)


@triton.jit(do_not_specialize=["pieces"])
def _best_of_row(
    best,
    ids,
    token_ids,
    tokens,
    rows,
    positions,
    pieces,
    token_stride,
    PIECES: tl.constexpr,
    PDL: tl.constexpr,
):
    wait_for_front(PDL)
    row = tl.program_id(0)
    piece = tl.arange(0, PIECES)
    there = piece < pieces
    value = tl.load(best + row.to(tl.int64) * pieces + piece, there, -float("inf"))
    highest, token = _first_of_best(
        value, tl.load(ids + row.to(tl.int64) * pieces + piece, there, 2147483647)
    )
    token = tl.where(tl.abs(highest) == float("inf"), -1, token)
    tl.store(token_ids + row, token)
    table_row = tl.load(rows + row).to(tl.int64)
    if table_row >= 0:
        tl.store(tokens + table_row * token_stride + tl.load(positions + row), tl.maximum(token, 0))
