"""Matrix products with a weight, and the one place that chooses how a weight is laid out.

Every projection and the dense head go through `Linear`. Several projections of one input are fused by
their builder: q, k, v into one weight, gate and up into one. Knows nothing of what it projects.

Measured for the four projections of Gemma 3 270M's 18 layers, two threads, ms a step, AVX-512 / AVX2:

    rows                 1            8            128          512
    plain fp32           5.0 / 5.1    17 / 17      133 / 130    504 / 504
    packed fp32          3.0 / 3.3    4.7 / 7.7    54 / 103     212 / 420
    packed bf16          1.9 / none   2.9 / none   27 / none    104 / none
    plain bf16           3.5 / 4.0    4.8 / 30     30 / 505     108 / 2026

So on the CPU weights are packed by oneDNN once, at load; fp32 is then fast enough to be the default and
loses nothing. bf16 is packed where the processor can multiply it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional


class Linear:
    """y = x Wᵀ + b for x [T, in], W [out, in]. Keeps W in the layout that is fastest on its device."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.out_features, self.in_features = weight.shape
        self._apply = _laid_out(weight, bias)

    def __call__(self, x: Tensor) -> Tensor:
        return self._apply(x)


def _laid_out(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    packed = _packed(weight)
    if packed is None:
        return lambda x: functional.linear(x, weight, bias)
    multiply = torch.ops.mkldnn._linear_pointwise
    return lambda x: multiply(x, packed, bias, "none", [], "")


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
