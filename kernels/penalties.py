"""Repetition, presence and frequency penalties over a row's history.

Place in the path: engine.runner.sampler (`apply_penalties`, plain torch) and engine.runner.gpu_sampler
(`penalise_triton`, settings from the row table) → here. Knows no request; the formula stands in
`kernels/reference_sampling.py`.

On the device the uses of each token are counted in a table of zeros, then every token of the history is claimed by
one of its uses, which takes the count away, so that the table is zero again, and writes the token's new logit. Two
launches of 8 programs a row. Bytes: 40 a token of the history, nothing for the rest of the vocabulary.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from kernels.reference_sampling import apply_penalties
from kernels.sampling_table import (
    FREQUENCY,
    PRESENCE,
    PROMPT_LEN,
    REPETITION,
    int_setting,
    is_penalised,
    real_setting,
)

__all__ = ["apply_penalties", "penalise_triton"]

_PROGRAMS = 8
_BLOCK = 512
_SEEN = tl.constexpr(1 << 30)
"""Added once to the count of a token that stands in the prompt."""


def penalise_triton(
    logits: Tensor,
    uses: Tensor,
    rows: Tensor,
    lens: Tensor,
    table: Tensor,
    tokens: Tensor,
    *,
    block: int = _BLOCK,
) -> None:
    """In place on logits [S, V] fp32.

    uses [≥ S, V] int32, zero before and after; rows, lens (tokens so far) [S] int32; tokens [R, positions] int32, a
    line for each of `table`.
    """
    count, vocab = logits.shape
    assert logits.is_contiguous()
    grid = (count, _PROGRAMS)
    _count_uses[grid](uses, rows, lens, table, tokens, vocab, tokens.stride(0), BLOCK=block, num_warps=4)
    _penalise[grid](
        logits, uses, rows, lens, table, tokens, vocab, tokens.stride(0), BLOCK=block, num_warps=4
    )


@triton.jit
def _count_uses(uses, rows, lens, table, tokens, vocab, token_stride, BLOCK: tl.constexpr):
    s = tl.program_id(0).to(tl.int64)
    row = tl.load(rows + s)
    if row < 0:
        return
    if not is_penalised(table, row):
        return
    length = tl.load(lens + s)
    prompt_len = int_setting(table, row, PROMPT_LEN)
    uses += s * vocab
    for start in range(tl.program_id(1) * BLOCK, length, tl.num_programs(1) * BLOCK):
        position = start + tl.arange(0, BLOCK)
        there = position < length
        token = tl.load(tokens + row.to(tl.int64) * token_stride + position, there, 0)
        tl.atomic_or(uses + token, _SEEN, there & (position < prompt_len), sem="relaxed")
        tl.atomic_add(uses + token, 1, there & (position >= prompt_len), sem="relaxed")


@triton.jit
def _penalise(logits, uses, rows, lens, table, tokens, vocab, token_stride, BLOCK: tl.constexpr):
    s = tl.program_id(0).to(tl.int64)
    row = tl.load(rows + s)
    if row < 0:
        return
    if not is_penalised(table, row):
        return
    length = tl.load(lens + s)
    repetition = real_setting(table, row, REPETITION).to(tl.float32)
    presence = real_setting(table, row, PRESENCE).to(tl.float32)
    frequency = real_setting(table, row, FREQUENCY).to(tl.float32)
    logits += s * vocab
    uses += s * vocab
    for start in range(tl.program_id(1) * BLOCK, length, tl.num_programs(1) * BLOCK):
        position = start + tl.arange(0, BLOCK)
        there = position < length
        token = tl.load(tokens + row.to(tl.int64) * token_stride + position, there, 0)
        used = tl.atomic_xchg(uses + token, 0, there, sem="relaxed")
        # All but one use of a token find its count gone.
        mine = there & (used != 0)
        logit = tl.load(logits + token, mine, 0)
        logit = tl.where(logit > 0, tl.div_rn(logit, repetition), logit * repetition)
        answered = (used & (_SEEN - 1)).to(tl.float32)
        logit -= frequency * answered + tl.where(answered > 0, presence, 0.0)
        tl.store(logits + token, logit, mine)
