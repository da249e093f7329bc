"""Matrix products with a weight, and the one place that chooses how a weight is laid out.

Every projection and the dense head go through `Linear`. Several projections of one input are fused by
their builder: q, k, v into one weight, gate and up into one. Knows nothing of what it projects.

Measured for the four projections of Gemma 3 270M's 18 layers, two threads, ms a step, AVX-512 / AVX2:

    rows                 1            8            128          512
    plain fp32           5.0 / 5.1    17 / 17      133 / 130    504 / 504
    packed fp32          3.0 / 3.3    4.7 / 7.7    54 / 103     212 / 420
    packed bf16          1.9 / none   2.9 / none   27 / none    104 / none
    plain bf16           3.5 / 4.0    4.8 / 30     30 / 505     108 / 2026

(Threads awake, the weights of one layer again and again, so in the cache. Through the layers in turn, one thread
on a busy machine, packed fp32 takes 14 and 21 ms for 1 and 8 rows: it reads 400 MB.)

So on the CPU weights are packed by oneDNN once, at load; fp32 is then fast enough to be the default and
loses nothing. bf16 is packed where the processor can multiply it. On a GPU a step of one token goes to
`kernels.matvec` and one of up to 64 to `kernels.small_matmul`, where that is faster; both take along what stands
around the product. Larger ones go to cuBLAS, which adds to the residual stream in place.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from engine.layers.norm import RMSNorm
from engine.layers.threads import is_large, use_threads
from engine.models.model_config import GatedAct
from kernels.gated_act import gated_act
from kernels.matvec import matvec
from kernels.small_matmul import Tile, small_matmul
from kernels.small_tiles import choose_tile

_ROWS_PER_TILE_MIN = 16


class Linear:
    """y = x Wᵀ + b for x [T, in], W [out, in]. Keeps W in the layout that is fastest on its device."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.out_features, self.in_features = weight.shape
        self._threads = torch.get_num_threads()
        self._bias = bias
        self._packed = _packed(weight)
        self._weight = None if self._packed is not None else weight
        tiles = -(-self.out_features // _ROWS_PER_TILE_MIN) if weight.is_cuda else 0
        self._arrived = torch.zeros(tiles, dtype=torch.int32, device=weight.device)

    def __call__(self, x: Tensor, norm: RMSNorm | None = None) -> Tensor:
        """The product of x, or of norm(x)."""
        weight = self._vector_weight(x)
        if weight is not None:
            scale, eps = (None, 0.0) if norm is None else (norm.weight, norm.eps)
            return matvec(x, weight, bias=self._bias, norm=scale, eps=eps)
        if norm is not None:
            x = norm(x)
        tile = self._tile(x)
        return self._product(x) if tile is None else self._small(x, tile)

    def gated(self, x: Tensor, norm: RMSNorm, act: GatedAct) -> Tensor:
        """act(g) · u for the product g | u of norm(x)."""
        weight = self._vector_weight(x)
        if weight is not None:
            return matvec(x, weight, bias=self._bias, norm=norm.weight, eps=norm.eps, act=act)
        tile = self._tile(x, gated=True)
        if tile is not None:
            return self._small(norm(x), tile, act=act)
        return gated_act(self(x, norm), act)

    def add_to(self, stream: Tensor, x: Tensor) -> Tensor:
        """stream + the product of x. The memory of `stream` may be used for the answer."""
        weight = self._vector_weight(x)
        if weight is not None:
            return matvec(x, weight, bias=self._bias, residual=stream)
        tile = self._tile(x)
        if tile is not None:
            return self._small(x, tile, residual=stream)
        if stream.is_cuda and self._weight is not None and self._bias is None:
            return stream.addmm_(x, self._weight.T)
        return stream + self._product(x)

    def _tile(self, x: Tensor, *, gated: bool = False) -> Tile | None:
        """How to cut a product of few tokens on a GPU, if that beats the library."""
        if not x.is_cuda or x.element_size() != 2:
            return None
        return choose_tile(x.shape[0], self.out_features, self.in_features, gated=gated)

    def _small(
        self, x: Tensor, tile: Tile, *, act: GatedAct | None = None, residual: Tensor | None = None
    ) -> Tensor:
        assert self._weight is not None
        return small_matmul(
            x, self._weight, tile, bias=self._bias, act=act, residual=residual, arrived=self._arrived
        )

    def _vector_weight(self, x: Tensor) -> Tensor | None:
        """The plain weight, if x is a single token on a GPU."""
        return self._weight if x.is_cuda and x.shape[0] == 1 else None

    def _product(self, x: Tensor) -> Tensor:
        if x.is_cuda or not is_large(self.out_features * self.in_features, x.shape[0]):
            return self._multiply(x)
        with use_threads(self._threads):
            return self._multiply(x)

    def _multiply(self, x: Tensor) -> Tensor:
        if self._packed is None:
            assert self._weight is not None
            return functional.linear(x, self._weight, self._bias)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self._bias, "none", [], "")
        return product


def packs_bfloat16() -> bool:
    """Whether this processor multiplies bf16 weights packed."""
    return _packed(torch.zeros(32, 32, dtype=torch.bfloat16)) is not None


def _packed(weight: Tensor) -> Tensor | None:
    """The weight in oneDNN's own order, or None where that gains nothing."""
    if weight.device.type != "cpu" or not torch._C._has_mkldnn:
        return None
    if weight.dtype not in (torch.float32, torch.bfloat16):
        return None
    try:
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
    except RuntimeError:  # bf16 on a processor without instructions for it
        return None
    return packed
