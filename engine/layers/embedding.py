"""Token embedding, and the head that turns hidden states into logits.

Both read the same `RowTable` when a checkpoint ties them. The head runs for sampled rows only and always
answers in fp32. Knows no sampling.

Head of Gemma 3 270M (262,144 × 640), two threads, ms for 1 / 8 / 16 rows, AVX-512 and AVX2: packed fp32
15 / 17 / 21 and 19 / 24 / 35 (671 MB), int8 5 / 11 / 22 and 8 / 26 / 65 (168 MB). One thread, AVX-512: packed bf16
11 / 16 / 21 (335 MB), int8 11 / 22 / 44. torch's fp16 product takes 10 / 16 / 31, but 4 s to pack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from engine.gguf import GGUFTensor
from engine.layers.fp8_linear import Projection
from engine.layers.gguf_quants import dequantize_rows
from engine.layers.linear import Linear
from engine.layers.threads import use_threads
from kernels.peaks import top_ids

SHORTLIST = 128
"""Most likely tokens per row whose logits a compact head recomputes exactly: six times the most
log-probabilities that a caller may ask for."""
_PACK_ROWS = 8192


class RowTable(Protocol):
    """A [V, H] matrix of which single rows can be had."""

    shape: tuple[int, int]

    def rows(self, ids: Tensor) -> Tensor:
        """ids [n] → [n, H]."""
        ...


class DenseRows:
    """Rows of a plain matrix, in whatever dtype it has; memory-mapped ones are read where touched."""

    def __init__(self, weight: Tensor) -> None:
        self._weight = weight
        self.shape = (weight.shape[0], weight.shape[1])

    def rows(self, ids: Tensor) -> Tensor:
        return functional.embedding(ids, self._weight)


class GGUFRows:
    """Rows of a GGUF matrix, unpacked at each look-up (CPU). fp32."""

    def __init__(self, tensor: GGUFTensor) -> None:
        vocab, hidden = tensor.shape
        self._tensor = tensor
        self._raw = torch.from_numpy(tensor.data).view(vocab, -1)
        self.shape = (vocab, hidden)

    def rows(self, ids: Tensor) -> Tensor:
        return dequantize_rows(self._tensor, self._raw[ids]).view(ids.shape[0], self.shape[1])


class Embedding:
    """Token ids [T] → [T, H] in the compute dtype, times the family's scale."""

    def __init__(self, table: RowTable, dtype: torch.dtype, scale: float = 1.0) -> None:
        self._table = table
        self._dtype = dtype
        # Gemma rounds the scale to its compute type, and its weights were trained with that.
        self.scale = torch.tensor(scale, dtype=dtype).item()

    def __call__(self, token_ids: Tensor) -> Tensor:
        rows = self._table.rows(token_ids).to(self._dtype)
        return rows if self.scale == 1.0 else rows * self.scale


class Head(Protocol):
    def __call__(self, hidden: Tensor) -> Tensor:
        """[S, H] → logits [S, V] fp32."""
        ...


class DenseHead:
    """One matrix product in the compute dtype."""

    def __init__(self, linear: Projection) -> None:
        self._linear = linear

    def __call__(self, hidden: Tensor) -> Tensor:
        return self._linear(hidden).float()


class CompactHead:
    """All logits from small weights, then the shortlist's again from the exact rows (CPU).

    The weights are bf16, for processors that multiply it, or int8 with one scale per row. Measured on Gemma
    3 270M, int8 logits are off by 0.11 (standard deviation; the logits' own is 6.6), bf16 ones by 0.02. The
    likeliest `SHORTLIST` tokens of each row get the exact logit instead, so greedy choices and differences between
    likely tokens are those of the full-precision head; what is left of the others' errors moves the normaliser by
    less than 0.001 on average, and by 0.02 at the flattest of 68 positions (both: it is the rounded hidden state).
    """

    def __init__(self, table: RowTable, *, bfloat16: bool) -> None:
        self._table = table
        self._multiply: Callable[[Tensor], Tensor] = (
            Linear(_in_bfloat16(table)) if bfloat16 else _Int8Weight(table)
        )

    def __call__(self, hidden: Tensor) -> Tensor:
        logits = self._multiply(hidden.bfloat16()).float()
        shortlist = top_ids(logits, min(SHORTLIST, logits.shape[1]))
        rows = self._table.rows(shortlist.flatten()).float().view(*shortlist.shape, self._table.shape[1])
        exact = torch.bmm(rows, hidden.float()[:, :, None]).squeeze(2)
        return logits.scatter_(1, shortlist, exact)


class SoftCappedHead:
    """cap · tanh(logits / cap)."""

    def __init__(self, head: Head, cap: float) -> None:
        self._head, self.cap = head, cap

    def __call__(self, hidden: Tensor) -> Tensor:
        return self.cap * torch.tanh(self._head(hidden) / self.cap)


class _Int8Weight:
    """x Wᵀ in bf16, with W in int8 and a scale per row."""

    def __init__(self, table: RowTable) -> None:
        self._threads = torch.get_num_threads()
        self._weight = torch.empty(table.shape, dtype=torch.int8)
        self._scale = torch.empty(table.shape[0], dtype=torch.bfloat16)
        for start, rows in _pieces(table):
            scale = (rows.abs().amax(dim=1) / 127).clamp_min(1e-12).bfloat16()
            quantized = (rows / scale.float()[:, None]).round_().clamp_(-127, 127)
            self._weight[start : start + _PACK_ROWS] = quantized
            self._scale[start : start + _PACK_ROWS] = scale

    def __call__(self, x: Tensor) -> Tensor:
        with use_threads(self._threads):
            return torch._weight_int8pack_mm(x, self._weight, self._scale)


def _in_bfloat16(table: RowTable) -> Tensor:
    whole = torch.empty(table.shape, dtype=torch.bfloat16)
    for start, rows in _pieces(table):
        whole[start : start + _PACK_ROWS] = rows
    return whole


def _pieces(table: RowTable) -> Iterator[tuple[int, Tensor]]:
    """The rows from a number on, in fp32, piece by piece."""
    for start in range(0, table.shape[0], _PACK_ROWS):
        yield start, table.rows(torch.arange(start, min(start + _PACK_ROWS, table.shape[0]))).float()
