"""What callers do to a row's logits by token: allowed ids, biases, and end tokens banned before min_tokens.

    l[i] = −∞ if the row is restricted and i is not allowed, or i is an end token and the row is shorter than its
    minimum;  else l[i] + bias[i].

Place in the path: gpu_sampler, first of the general graph → here; rows without edits leave at once. Knows no
request. A row's allowed ids are a bit mask, its biases and end tokens one list in which no token stands twice.
The logits of rows that are edited here or by `penalties` and want log-probabilities are kept as they came.

Bytes: 4·V a row to write for a restricted row, 8·V to keep one, else 16 an entry of the list.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from kernels.sampling_table import (
    MIN_LEN,
    NUM_EDITS,
    NUM_LOGPROBS,
    RESTRICTED,
    int_setting,
    is_edited,
)

__all__ = ["END_BIT", "edit_logits"]

END_BIT = 1 << 30
"""Marks an id of the list that is banned while its row is short."""

_PIECE = 4096
_LISTED = 256
_END = tl.constexpr(END_BIT)


def edit_logits(
    logits: Tensor,
    kept: Tensor,
    rows: Tensor,
    lens: Tensor,
    table: Tensor,
    allowed: Tensor,
    edit_ids: Tensor,
    edit_biases: Tensor,
    *,
    piece: int = _PIECE,
) -> None:
    """In place on logits [S, V] fp32.

    kept [≥ S, V] fp32 gets the logits as they came of rows that need them later; rows, lens (tokens so far) [S]
    int32; allowed [R, ⌈V / 32⌉] int32 bits; edit_ids int32 and edit_biases fp32 [R, E], a line for each of `table`.
    """
    count, vocab = logits.shape
    assert logits.is_contiguous()
    _edit[(count, triton.cdiv(vocab, piece))](
        logits, kept, rows, lens, table, allowed, edit_ids, edit_biases, vocab, allowed.stride(0), edit_ids.stride(0),
        PIECE=piece, LISTED=_LISTED, num_warps=8,
    )  # fmt: skip


@triton.jit
def _is_allowed(allowed, token, there):
    return ((tl.load(allowed + token // 32, there, 0) >> (token % 32)) & 1) > 0


@triton.jit
def _edit(
    logits, kept, rows, lens, table, allowed, edit_ids, edit_biases, vocab, mask_stride, list_stride,
    PIECE: tl.constexpr, LISTED: tl.constexpr,
):  # fmt: skip
    s = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * PIECE
    row = tl.load(rows + s)
    if row < 0:
        return
    if not is_edited(table, row):
        return
    allowed += row.to(tl.int64) * mask_stride
    edit_ids += row.to(tl.int64) * list_stride
    edit_biases += row.to(tl.int64) * list_stride
    logits += s * vocab
    token = first + tl.arange(0, PIECE)
    there = token < vocab
    if int_setting(table, row, NUM_LOGPROBS) >= 0:
        tl.store(kept + s * vocab + token, tl.load(logits + token, there), there)
    restricted = int_setting(table, row, RESTRICTED) > 0
    if restricted:
        tl.store(logits + token, -float("inf"), there & (_is_allowed(allowed, token, there) == 0))
    # The list touches what was read above, but nothing that was written: only allowed tokens are edited.
    tl.debug_barrier()
    is_short = tl.load(lens + s) < int_setting(table, row, MIN_LEN)
    count = int_setting(table, row, NUM_EDITS).to(tl.int32)
    for start in range(0, count, LISTED):
        i = start + tl.arange(0, LISTED)
        listed = tl.load(edit_ids + i, i < count, 0)
        target = listed & (_END - 1)
        mine = (i < count) & (target >= first) & (target < first + PIECE)
        if restricted:
            mine = mine & _is_allowed(allowed, target, mine)
        logit = tl.load(logits + target, mine, 0) + tl.load(edit_biases + i, mine, 0)
        tl.store(logits + target, tl.where((listed >= _END) & is_short, -float("inf"), logit), mine)
