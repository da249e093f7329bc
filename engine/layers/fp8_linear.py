"""A projection whose weight is e4m3 with one scale per output channel.

Beside `engine.layers.linear.Linear`, with the same three calls. The input is quantised too, each row by its
own largest value: on a GPU by the kernel that makes it, for `kernels.matmul_fp8`. On a CPU, which has no 8-bit float arithmetic, the weight is
widened once and the input is rounded as a GPU would: the answers are those of a GPU but for the order of sums, which
is what the CPU is for here; it saves no memory. Knows nothing of what it projects.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from engine.layers.linear import Linear
from engine.layers.norm import RMSNorm
from engine.models.model_config import GatedAct
from kernels.e4m3 import E4M3
from kernels.gated_act import gated_act
from kernels.matmul_fp8 import Launch, arrivals, matmul_fp8, takes_vector
from kernels.matvec_fp8 import matvec_fp8_triton
from kernels.quantize import gated_act_fp8, quantize_rows, rms_norm_fp8


class Fp8Rows(NamedTuple):
    """Rows that are quantised already, for the projection that takes them next."""

    q: Tensor
    """[T, in] e4m3."""
    scale: Tensor
    """[T, 1] fp32."""


class Fp8Linear:
    """y = x Wᵀ + b for x [T, in], W [out, in] e4m3 times scale [out] fp32; y has the dtype `dtype`."""

    def __init__(
        self,
        weight: Tensor,
        scale: Tensor,
        dtype: torch.dtype,
        bias: Tensor | None = None,
        widen: type[Linear] = Linear,
        launch: Launch | None = None,
    ) -> None:
        """`widen`: what multiplies the widened weight on a CPU. `launch`: how a GPU cuts every product; None: by size."""
        assert weight.dtype == E4M3
        assert scale.shape == weight.shape[:1]
        self.out_features, self.in_features = weight.shape
        self._dtype, self._bias, self._launch = dtype, bias, launch
        self._weight, self._scale = weight, scale
        self._widened: Linear | None = None
        self._arrived = torch.zeros(arrivals(self.out_features), dtype=torch.int32, device=weight.device)
        if not weight.is_cuda:
            self._widened = widen((weight.float() * scale[:, None]).to(dtype), bias)
            self._weight = weight.new_empty(0)

    def __call__(self, x: Tensor | Fp8Rows, norm: RMSNorm | None = None) -> Tensor:
        """The product of x, or of norm(x)."""
        if self._widened is not None:
            return self._widened(_rounded(x, norm))
        return self._product(_quantized(x, norm))

    def gated(self, x: Tensor, norm: RMSNorm, act: GatedAct) -> Tensor:
        """act(g) · u for the product g | u of norm(x)."""
        if self._takes_vector(x):
            rows = _quantized(x, norm)
            return matvec_fp8_triton(*rows, self._weight, self._scale, self._dtype, bias=self._bias, act=act)
        return gated_act(self(x, norm), act)

    def gated_rows(self, x: Tensor, norm: RMSNorm, act: GatedAct) -> Tensor | Fp8Rows:
        """The same for another `Fp8Linear`, which takes it quantised where it would quantise it anyway."""
        if self._widened is not None or self._takes_vector(x):
            return self.gated(x, norm, act)
        return Fp8Rows(*gated_act_fp8(self(x, norm), act))

    def add_to(self, stream: Tensor, x: Tensor | Fp8Rows) -> Tensor:
        """stream + the product of x. The memory of `stream` may be used for the answer."""
        if self._widened is not None:
            return stream + self(x)
        return self._product(_quantized(x, None), residual=stream)

    def _takes_vector(self, x: Tensor) -> bool:
        """Whether x is a single token on a GPU, whose activation comes with the product."""
        return self._launch is None and takes_vector(x)

    def _product(self, rows: Fp8Rows, residual: Tensor | None = None) -> Tensor:
        return matmul_fp8(
            *rows, self._weight, self._scale, self._dtype,
            bias=self._bias, residual=residual, arrived=self._arrived, launch=self._launch,
        )  # fmt: skip


Projection = Linear | Fp8Linear


def _quantized(x: Tensor | Fp8Rows, norm: RMSNorm | None) -> Fp8Rows:
    if isinstance(x, Fp8Rows):
        return x
    return Fp8Rows(*(quantize_rows(x) if norm is None else rms_norm_fp8(x, norm.weight, norm.eps)))


def _rounded(x: Tensor | Fp8Rows, norm: RMSNorm | None) -> Tensor:
    """What the quantised rows stand for, in x's dtype."""
    assert isinstance(x, Tensor)
    rows = _quantized(x, norm)
    return (rows.q.float() * rows.scale).to(x.dtype)
