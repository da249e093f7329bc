"""One token through a weight matrix, with what stands around it: norm in front, activation or residual behind.

    z = W · (x / sqrt(mean(x²) + eps) · norm) + bias,   y = z + residual   or   act(z[:F]) · z[F:]

W may be fp8 (e4m3) with one scale a row; x and the sum stay what they are.

Place in the path: layers, for steps of a single token, → here. CPU tensors go to plain torch, CUDA tensors to
Triton. Knows no model. A step of one token is a walk over the weights at the speed of memory; cuBLAS reaches 55 to
82 % of it at these shapes. Here each program takes a few rows of W, multiplies on the FMA units (2 operations per
weight leave them idle enough), and asks for its first weights before the kernel in front has finished
(programmatic dependent launch). The norm costs nothing: its scale is applied after the sum.

Bytes: N·K·sizeof(w). The sum is fp32 and x · norm is not rounded in between.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from kernels import reference

__all__ = ["matvec", "matvec_reference", "matvec_triton"]


def matvec(
    x: Tensor,
    weight: Tensor,
    *,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    norm: Tensor | None = None,
    eps: float = 0.0,
    act: str | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """y [1, N], or [1, N / 2] with `act` ("silu" or "gelu_tanh"; the first half of W's rows is the gate).

    x [1, K], weight [N, K] row after row, scale fp32 [N] of its rows, bias [N], norm fp32 [K], residual [1, N].
    """
    run = matvec_triton if x.is_cuda else matvec_reference
    return run(x, weight, scale=scale, bias=bias, norm=norm, eps=eps, act=act, residual=residual)


def matvec_reference(
    x: Tensor,
    weight: Tensor,
    *,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    norm: Tensor | None = None,
    eps: float = 0.0,
    act: str | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """The same in plain torch, rounding to x's dtype between the ops."""
    if norm is not None:
        x, _ = reference.rms_norm(x, norm, eps)
    if scale is not None:
        weight = (weight.float() * scale[:, None]).to(x.dtype)
    y = functional.linear(x, weight, bias)
    if act is not None:
        y = reference.gated_act(y, act)
    return y if residual is None else y + residual


def matvec_triton(
    x: Tensor,
    weight: Tensor,
    *,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    norm: Tensor | None = None,
    eps: float = 0.0,
    act: str | None = None,
    residual: Tensor | None = None,
    launch: tuple[int, int, int] | None = None,
) -> Tensor:
    """The Triton path. `launch`: rows a program, columns a step, warps; for tuning."""
    rows, columns = weight.shape
    assert x.shape == (1, columns)
    assert weight.is_contiguous()
    assert x.is_contiguous()
    outputs = rows if act is None else rows // 2
    y = torch.empty(1, outputs, dtype=x.dtype, device=x.device)
    block_rows, block_columns, warps = launch or _launch(
        outputs, columns, act is not None, weight.element_size()
    )
    on_gpu = {"launch_pdl": True} if x.is_cuda else {}
    _matvec[(triton.cdiv(outputs, block_rows),)](
        x, weight, scale, bias, norm, residual, y, outputs, columns, eps,
        ACT=act or "", BLOCK_ROWS=block_rows, BLOCK_COLUMNS=block_columns, PDL=x.is_cuda,
        num_warps=warps, **on_gpu,
    )  # fmt: skip
    return y


def _launch(outputs: int, columns: int, gated: bool, weight_bytes: int) -> tuple[int, int, int]:
    """Measured on an H200: enough programs to fill 132 multiprocessors, each with 8 KiB or more in flight."""
    block_columns = min(1024, triton.next_power_of_2(columns))
    if weight_bytes == 1:
        return (2 if gated else 4), min(2048, triton.next_power_of_2(columns)), 4
    if gated:
        return 2, block_columns, 2
    return (4 if outputs >= 4096 else 2), block_columns, (4 if outputs > 16384 else 2)


@triton.jit
def _dot_rows(
    weight,
    row,
    there,
    columns,
    x,
    norm,
    NORMED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PDL: tl.constexpr,
):
    """Σ_k w[row, k] · x[k] · norm[k] and Σ_k x[k]²."""
    column = tl.arange(0, COLUMNS)
    at = weight + row.to(tl.int64)[:, None] * columns + column[None, :]
    w = tl.load(at, there[:, None] & (column < columns)[None, :], 0.0, eviction_policy="evict_first")
    if PDL:
        # Weights do not depend on the kernel in front: the first are on their way while it finishes.
        tl.extra.cuda.gdc_wait()
    acc = tl.zeros([ROWS, COLUMNS], tl.float32)
    square = tl.zeros([COLUMNS], tl.float32)
    for start in tl.range(0, columns, COLUMNS):
        inside = start + column < columns
        value = tl.load(x + start + column, inside, 0).to(tl.float32)
        square += value * value
        if NORMED:
            value *= tl.load(norm + start + column, inside, 0)
        acc += w.to(tl.float32) * value[None, :]
        ahead = start + COLUMNS + column < columns
        w = tl.load(at + start + COLUMNS, there[:, None] & ahead[None, :], 0.0, eviction_policy="evict_first")
    return tl.sum(acc, 1), tl.sum(square, 0)


@triton.jit
def _matvec(
    x, weight, scale, bias, norm, residual, y, outputs, columns, eps,
    ACT: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    there = row < outputs
    NORMED: tl.constexpr = norm is not None
    z, square = _dot_rows(weight, row, there, columns, x, norm, NORMED, BLOCK_ROWS, BLOCK_COLUMNS, PDL)
    if ACT != "":
        up, _ = _dot_rows(
            weight, outputs + row, there, columns, x, norm, NORMED, BLOCK_ROWS, BLOCK_COLUMNS, False
        )
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    if NORMED:
        inverse_rms = 1 / tl.sqrt_rn(square / columns + eps)
        z *= inverse_rms
        if ACT != "":
            up *= inverse_rms
    if scale is not None:
        z *= tl.load(scale + row, there, 0)
        if ACT != "":
            up *= tl.load(scale + outputs + row, there, 0)
    if bias is not None:
        z += tl.load(bias + row, there, 0).to(tl.float32)
        if ACT != "":
            up += tl.load(bias + outputs + row, there, 0).to(tl.float32)
    if ACT == "silu":
        z = z * tl.sigmoid(z) * up
    elif ACT == "gelu_tanh":
        z = z * tl.sigmoid(1.5957691216057308 * (z + 0.044715 * z * z * z)) * up
    if residual is not None:
        z += tl.load(residual + row, there, 0).to(tl.float32)
    tl.store(y + row, z, there)
