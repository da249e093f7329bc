"""RMS normalisation with the residual addition in front.

    h = x + residual,   y = h / sqrt(mean(h²) + eps) · weight

Place in the path: layers → here. CPU tensors go to `kernels/reference.py`, CUDA tensors to Triton: one program
a row, the row in registers. Knows no model. Bytes: 8·T·H in bf16 with a residual, 4·T·H without.
Measured (H200, H = 4,096, bf16): 4,096 rows 36 µs = 84 % of the read bandwidth; 1 row 2.4 µs.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels import reference
from kernels.dependent_launch import launch_dependents, pdl_options, wait_for_front

__all__ = ["rms_norm", "rms_norm_triton"]


def rms_norm(x: Tensor, weight: Tensor, eps: float, residual: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(y, h), as `kernels.reference.rms_norm` defines them."""
    if x.is_cuda:
        return rms_norm_triton(x, weight, eps, residual)
    return reference.rms_norm(x, weight, eps, residual)


def rms_norm_triton(
    x: Tensor, weight: Tensor, eps: float, residual: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The Triton path: x [..., H] of any row stride, weight fp32 [H]."""
    width = x.shape[-1]
    rows = x.reshape(-1, width)
    addend = rows if residual is None else residual.reshape(-1, width)
    y = torch.empty(rows.shape, dtype=x.dtype, device=x.device)
    h = y if residual is None else torch.empty_like(y)
    block = triton.next_power_of_2(width)
    _rms_norm[(rows.shape[0],)](
        rows, addend, weight, y, h, rows.stride(0), addend.stride(0), width, eps,
        HAS_RESIDUAL=residual is not None, BLOCK=block, PDL=x.is_cuda, num_warps=min(8, max(1, block // 512)),
        **pdl_options(x),
    )  # fmt: skip
    return y.view(x.shape), x if residual is None else h.view(x.shape)


@triton.jit
def _rms_norm(
    x, residual, weight, y, h, x_stride, residual_stride, width, eps,
    HAS_RESIDUAL: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    launch_dependents(PDL)
    wait_for_front(PDL)
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    there = col < width
    value = tl.load(x + row * x_stride + col, there, 0).to(tl.float32)
    if HAS_RESIDUAL:
        value += tl.load(residual + row * residual_stride + col, there, 0).to(tl.float32)
        # Rounded to the stream's dtype before it is normalised, as the reference does.
        rounded = value.to(h.dtype.element_ty)
        tl.store(h + row * width + col, rounded, there)
        value = rounded.to(tl.float32)
    scale = 1 / tl.sqrt_rn(tl.sum(value * value, 0) / width + eps)
    tl.store(y + row * width + col, value * scale * tl.load(weight + col, there, 0), there)
