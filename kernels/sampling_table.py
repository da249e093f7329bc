"""What the sampling kernels know of a row: one line of 16 words in a table on the device.

Place in the path: engine.runner.gpu_sampler packs a line when a request takes a row; `logit_edits`, `penalties`,
`survivors`, `race` and `logprobs` read it. Real numbers stand in the table as the bits of float64, so that one
copy brings a row's settings. Knows no request.

Also here: `order_key`, the order of logits as integers, which these kernels share.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["WORDS", "pack_row", "pack_rows"]

WORDS = 16
ID_BITS = tl.constexpr(18)
"""Token ids are below 2¹⁸: what an order of (logit, id) pairs leaves for the id."""
ID_MAX = tl.constexpr(2**18 - 1)
KEY_MAX = tl.constexpr(2**31 - 1)
"""Above the key of every number."""

_FLOATS = 6
_WORDS = tl.constexpr(WORDS)
TEMPERATURE = tl.constexpr(0)
MIN_P = tl.constexpr(1)
TOP_P = tl.constexpr(2)
REPETITION = tl.constexpr(3)
PRESENCE = tl.constexpr(4)
FREQUENCY = tl.constexpr(5)
TOP_K = tl.constexpr(6)
"""0: off."""
SEED = tl.constexpr(7)
PROMPT_LEN = tl.constexpr(8)
NUM_LOGPROBS = tl.constexpr(9)
"""−1: none asked for."""
MIN_LEN = tl.constexpr(10)
"""Below this length the row's end tokens are banned."""
NUM_EDITS = tl.constexpr(11)
RESTRICTED = tl.constexpr(12)
"""1: only the tokens of the row's mask are allowed."""
NUM_BAD_WORDS = tl.constexpr(13)


def pack_row(
    *,
    temperature: float = 0.0,
    min_p: float = 0.0,
    top_p: float = 1.0,
    repetition: float = 1.0,
    presence: float = 0.0,
    frequency: float = 0.0,
    top_k: int = 0,
    seed: int = 0,
    prompt_len: int = 0,
    num_logprobs: int = -1,
    min_len: int = 0,
    num_edits: int = 0,
    restricted: bool = False,
    num_bad_words: int = 0,
) -> tuple[list[float], list[int]]:
    """A row's real numbers and its integers, in the order of the table; the default is the plain greedy row.
    `seed` is a two's complement int64."""
    floats = [temperature, min_p, top_p, repetition, presence, frequency]
    ints = [top_k, seed, prompt_len, num_logprobs, min_len, num_edits, int(restricted), num_bad_words]
    return floats, ints + [0] * (WORDS - _FLOATS - len(ints))


def pack_rows(rows: Sequence[tuple[list[float], list[int]]]) -> Tensor:
    """[n, WORDS] int64 on the host."""
    floats = torch.tensor([row[0] for row in rows], dtype=torch.float64, device="cpu")
    ints = torch.tensor([row[1] for row in rows], dtype=torch.int64, device="cpu")
    return torch.cat((floats.view(torch.int64), ints), dim=1)


@triton.jit
def int_setting(table, row, COLUMN: tl.constexpr):
    return tl.load(table + row.to(tl.int64) * _WORDS + COLUMN)


@triton.jit
def real_setting(table, row, COLUMN: tl.constexpr):
    return int_setting(table, row, COLUMN).to(tl.float64, bitcast=True)


@triton.jit
def is_penalised(table, row):
    repeats = real_setting(table, row, REPETITION) != 1
    return repeats | (real_setting(table, row, PRESENCE) != 0) | (real_setting(table, row, FREQUENCY) != 0)


@triton.jit
def is_edited(table, row):
    """Whether the row's logits change before it is drawn."""
    listed = (int_setting(table, row, NUM_EDITS) > 0) | (int_setting(table, row, RESTRICTED) > 0)
    return listed | (int_setting(table, row, NUM_BAD_WORDS) > 0) | is_penalised(table, row)


@triton.jit
def is_filtered(table, row, vocab):
    """Whether the row draws from a part of the vocabulary."""
    top_k = int_setting(table, row, TOP_K)
    cut = ((top_k > 0) & (top_k < vocab)) | (real_setting(table, row, TOP_P) < 1)
    return (real_setting(table, row, TEMPERATURE) > 0) & (cut | (real_setting(table, row, MIN_P) > 0))


@triton.jit
def order_key(logit):
    """fp32 → int32 in the same order; both zeros are one key."""
    bits = tl.where(logit == 0, 0.0, logit).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def key_logit(key):
    """The logit of an `order_key`."""
    return (key ^ ((key >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
