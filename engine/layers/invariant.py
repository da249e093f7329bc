"""Products whose rows do not depend on how many others there are: for `--batch-invariant`.

Beside `engine.layers.linear.Linear`, with the same calls. A library chooses its loops, and so the order of its sums,
by the number of rows; here every product has the same number. On the CPU rows go through in tiles of `TILE`, the last
one filled up with zeros; within a shape every row is added up alike, wherever it stands (tests/engine/layers asks this
processor). On a GPU all sizes go through one kernel with one tile. Knows nothing of what it projects.

Measured for whole steps of Gemma 3 270M, one thread, AVX2, ms of processor time with all that `--batch-invariant`
does, and without: decoding 1 row 53 (36), 8 rows 83 (71), 16 rows 153 (119); a prompt of 500 tokens 899 (749).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from engine.layers.embedding import Head
from engine.layers.linear import Linear
from engine.layers.threads import is_large, use_threads
from kernels.matmul_fp8 import Launch
from kernels.small_matmul import Tile, small_matmul

TILE = 8
GPU_TILE, GPU_TOKENS = Tile(rows=64, columns=128, warps=4, stages=3), 32
"""Of every product on a GPU. Not measured: a step of one token needs it small, a prompt large."""
FP8_LAUNCH = Launch(tokens=32, rows=64, columns=256)


class InvariantLinear(Linear):
    """y = x Wᵀ + b, each row as if it were alone."""

    def add_to(self, stream: Tensor, x: Tensor) -> Tensor:
        return self._on_gpu(x, stream) if x.is_cuda else stream + self._product(x)

    def _vector_weight(self, x: Tensor) -> Tensor | None:
        return None

    def _tile(self, x: Tensor, *, gated: bool = False) -> Tile | None:
        return None

    def _product(self, x: Tensor) -> Tensor:
        if x.is_cuda:
            return self._on_gpu(x)
        if not is_large(self.out_features * self.in_features, TILE):
            return self._in_tiles(x)
        with use_threads(self._threads):
            return self._in_tiles(x)

    def _on_gpu(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        assert self._weight is not None
        return small_matmul(
            x, self._weight, GPU_TILE, bias=self._bias, residual=residual, block_tokens=GPU_TOKENS
        )

    def _in_tiles(self, x: Tensor) -> Tensor:
        return in_tiles(self._multiply, x, self.out_features)


class InvariantHead:
    """A head that sees `TILE` rows at a time, on the CPU."""

    def __init__(self, head: Head, vocab_size: int) -> None:
        self._head, self._vocab_size = head, vocab_size

    def __call__(self, hidden: Tensor) -> Tensor:
        return in_tiles(self._head, hidden, self._vocab_size, torch.float32)


def in_tiles(
    product: Callable[[Tensor], Tensor], x: Tensor, width: int, dtype: torch.dtype | None = None
) -> Tensor:
    """The product of x [T, in], TILE rows at a time → [T, width]."""
    num_rows = x.shape[0]
    if num_rows == TILE:
        return product(x)
    out = torch.empty(num_rows, width, dtype=dtype or x.dtype)
    for start in range(0, num_rows, TILE):
        tile = x[start : start + TILE]
        count = tile.shape[0]
        if count < TILE:
            tile = torch.cat((tile, tile.new_zeros(TILE - count, x.shape[1])))
        out[start : start + TILE] = product(tile)[:count]
    return out
