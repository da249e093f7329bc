"""Rows in fp8 with one scale each, and what stands in front of them: nothing, the norm, or the gated activation.

    s[t] = max_k |y[t, k]| / 448,   q[t, k] = e4m3(y[t, k] / s[t]),   y = x, norm(x) or act(gate) · up

Place in the path: layers with fp8 weights → here → `kernels/matmul_fp8.py`. CPU tensors go to plain torch, CUDA
tensors to Triton: one program a row, the row in registers, y never rounded in between. Knows no model.
Bytes: 3·T·K from bf16 (5·T·F for the activation).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels import reference
from kernels.dependent_launch import launch_dependents, pdl_options, wait_for_front
from kernels.e4m3 import E4M3, E4M3_MAX, to_e4m3, to_e4m3_triton

__all__ = [
    "gated_act_fp8",
    "gated_act_fp8_triton",
    "quantize_rows",
    "quantize_rows_triton",
    "rms_norm_fp8",
    "rms_norm_fp8_triton",
]

_SMALLEST = 1e-12
"""Below this a row counts as zero: its scale must not be."""


def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """(q [T, K] e4m3, s [T, 1] fp32) of x [T, K]. A NaN stays, and may make all of its row NaN."""
    return quantize_rows_triton(x) if x.is_cuda else _quantized(x.float())


def rms_norm_fp8(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """`quantize_rows` of the norm of x [T, K]; weight fp32 [K]."""
    if x.is_cuda:
        return rms_norm_fp8_triton(x, weight, eps)
    return _quantized(reference.rms_norm(x.float(), weight, eps)[0])


def gated_act_fp8(x: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """`quantize_rows` of the gated activation [T, F] of x [T, 2F] = gate | up."""
    return gated_act_fp8_triton(x, kind) if x.is_cuda else _quantized(reference.gated_act(x.float(), kind))


def quantize_rows_triton(x: Tensor, warps: int = 0) -> tuple[Tensor, Tensor]:
    """The Triton path; rows of x may have any stride."""
    return _run(x, x.shape[1], "", None, 0.0, warps)


def rms_norm_fp8_triton(x: Tensor, weight: Tensor, eps: float, warps: int = 0) -> tuple[Tensor, Tensor]:
    """The Triton path; rows of x may have any stride."""
    return _run(x, x.shape[1], "norm", weight, eps, warps)


def gated_act_fp8_triton(x: Tensor, kind: str, warps: int = 0) -> tuple[Tensor, Tensor]:
    """The Triton path; rows of x may have any stride."""
    assert kind in ("silu", "gelu_tanh"), kind
    return _run(x, x.shape[1] // 2, kind, None, 0.0, warps)


def _run(
    x: Tensor, width: int, front: str, weight: Tensor | None, eps: float, warps: int = 0
) -> tuple[Tensor, Tensor]:
    assert x.stride(1) == 1
    q = torch.empty(x.shape[0], width, dtype=E4M3, device=x.device)
    scale = torch.empty(x.shape[0], 1, dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(width)
    _quantize[(x.shape[0],)](
        x, weight, q, scale, x.stride(0), width, eps,
        FRONT=front, BLOCK=block, PDL=x.is_cuda, num_warps=warps or min(16, max(1, block // 512)), **pdl_options(x),
    )  # fmt: skip
    return q, scale


def _quantized(y: Tensor) -> tuple[Tensor, Tensor]:
    scale = y.abs().amax(-1, keepdim=True).clamp_min(_SMALLEST) / E4M3_MAX
    return to_e4m3(y / scale), scale


@triton.jit
def _quantize(
    x, weight, q, scale, x_stride, width, eps, FRONT: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr
):
    launch_dependents(PDL)
    wait_for_front(PDL)
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    there = col < width
    y = tl.load(x + row * x_stride + col, there, 0).to(tl.float32)
    if FRONT == "norm":
        y *= 1 / tl.sqrt_rn(tl.sum(y * y, 0) / width + eps)
        y *= tl.load(weight + col, there, 0)
    elif FRONT != "":
        up = tl.load(x + row * x_stride + width + col, there, 0).to(tl.float32)
        if FRONT == "silu":
            y = y * tl.sigmoid(y) * up
        else:
            # (1 + tanh z) / 2 = sigmoid(2z)
            y = y * tl.sigmoid(1.5957691216057308 * (y + 0.044715 * y * y * y)) * up
    s = tl.maximum(tl.max(tl.abs(y), 0), 1e-12) / 448
    tl.store(q + row * width + col, to_e4m3_triton(tl.div_rn(y, s)), there)
    tl.store(scale + row, s)
