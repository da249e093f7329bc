"""Tokens that would complete a forbidden sequence of tokens get the logit −∞.

    l[i] = −∞ if for some word w₁ … wₖ of the row, i = wₖ and the answer ends with w₁ … wₖ₋₁.

Place in the path: gpu_sampler, behind `logit_edits` in the general graph → here; rows without words leave at once. A
word lies within the answer: tokens of the prompt do not begin it. Knows no request and no text.

Bytes: 4·L a word to read, 4 for each that is nearly complete to write.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.sampling_table import NUM_BAD_WORDS, PROMPT_LEN, int_setting

__all__ = ["MAX_WORDS", "MAX_WORD_TOKENS", "forbid_words", "pack_words"]

MAX_WORDS = 256
"""Of one row."""
MAX_WORD_TOKENS = 16

_LISTED = 16
_LENGTH = tl.constexpr(MAX_WORD_TOKENS)


def pack_words(words: Sequence[Sequence[int]]) -> Tensor:
    """[n, MAX_WORD_TOKENS] int32 on the host: every word at the end of its line, −1 before it."""
    lines = [[-1] * (MAX_WORD_TOKENS - len(word)) + list(word) for word in words]
    return torch.tensor(lines, dtype=torch.int32, device="cpu")


def forbid_words(
    logits: Tensor, rows: Tensor, lens: Tensor, table: Tensor, words: Tensor, tokens: Tensor
) -> None:
    """In place on logits [S, V] fp32.

    rows, lens (tokens so far) [S] int32; words [R, MAX_WORDS, MAX_WORD_TOKENS] int32 as `pack_words` makes them, and
    tokens [R, positions] int32, a line for each of `table`.
    """
    count, vocab = logits.shape
    assert logits.is_contiguous()
    assert words.is_contiguous()
    _forbid[(count,)](
        logits, rows, lens, table, words, tokens, vocab, words.stride(0), tokens.stride(0),
        LISTED=_LISTED, num_warps=1,
    )  # fmt: skip


@triton.jit
def _forbid(
    logits, rows, lens, table, words, tokens, vocab, word_stride, token_stride, LISTED: tl.constexpr
):  # fmt: skip
    s = tl.program_id(0).to(tl.int64)
    row = tl.load(rows + s)
    if row < 0:
        return
    count = int_setting(table, row, NUM_BAD_WORDS).to(tl.int32)
    if count == 0:
        return
    words += row.to(tl.int64) * word_stride
    tokens += row.to(tl.int64) * token_stride
    place = tl.arange(0, _LENGTH)
    # The last place of a line is the token in question; the others face the end of the answer.
    position = tl.load(lens + s) - (_LENGTH - 1) + place
    answered = (position >= int_setting(table, row, PROMPT_LEN)) & (place < _LENGTH - 1)
    history = tl.load(tokens + position, answered, -2)
    for start in range(0, count, LISTED):
        i = start + tl.arange(0, LISTED)
        word = tl.load(words + i[:, None] * _LENGTH + place[None, :], (i < count)[:, None], -1)
        fits = (word == -1) | (word == history[None, :]) | (place == _LENGTH - 1)[None, :]
        last = tl.load(words + i * _LENGTH + _LENGTH - 1, i < count, 0)
        complete = tl.min(fits.to(tl.int32), 1) > 0
        tl.store(logits + s * vocab + last, -float("inf"), (i < count) & complete)
