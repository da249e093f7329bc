"""One token through a weight matrix, with what stands around it: norm in front, activation or residual behind.

    z = W · (x / sqrt(mean(x²) + eps) · norm) + bias,   y = z + residual   or   act(z[:F]) · z[F:]

W may be fp8 (e4m3) with one scale a row; x and the sum stay what they are.

Place in the path: layers, for steps of a single token, → here. CPU tensors go to plain torch, CUDA tensors to
Triton. Knows no model. A step of one token is a walk over the weights at the speed of memory; cuBLAS reaches 55 to
82 % of it at these shapes. Here each program takes a few rows of W, multiplies on the FMA units (2 operations per
weight leave them idle enough), and asks for its first weights before the kernel in front has finished
(`dependent_launch`). The norm costs nothing: its scale is applied after the sum.

Bytes: N·K·sizeof(w). The sum is fp32 and x · norm is not rounded in between.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from kernels import reference
from kernels.dependent_launch import launch_dependents, lines_ahead, pdl_options, prefetch, wait_for_front

__all__ = ["Strip", "matvec", "matvec_reference", "matvec_triton"]


@dataclass(frozen=True, slots=True)
class Strip:
    """How a launch is cut."""

    rows: int
    """W's rows a program (of each half, where gated)."""
    columns: int
    """W's columns a step."""
    warps: int
    ahead: int = 0
    """Columns, beyond those of the first step, that a program asks for before the kernel in front has finished."""


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
    strip: Strip | None = None,
) -> Tensor:
    """The Triton path. `strip` is for tuning."""
    rows, columns = weight.shape
    assert x.shape == (1, columns)
    assert weight.is_contiguous()
    assert x.is_contiguous()
    outputs = rows if act is None else rows // 2
    y = torch.empty(1, outputs, dtype=x.dtype, device=x.device)
    strip = strip or _strip(outputs, columns, act is not None, weight.element_size())
    _matvec[(triton.cdiv(outputs, strip.rows),)](
        x, weight, scale, bias, norm, residual, y, outputs, columns, eps,
        ACT=act or "", BLOCK_ROWS=strip.rows, BLOCK_COLUMNS=strip.columns,
        LINES=lines_ahead(strip.ahead, weight), PDL=x.is_cuda,
        num_warps=strip.warps, **pdl_options(x),
    )  # fmt: skip
    return y


def _strip(outputs: int, columns: int, gated: bool, weight_bytes: int) -> Strip:
    """Measured on an H200: many programs of few warps, so that some begin while others end."""
    block_columns = min(1024, triton.next_power_of_2(columns))
    if weight_bytes == 1:
        return Strip(2 if gated else 4, min(2048, triton.next_power_of_2(columns)), 4)
    if gated:
        return Strip(2, min(512, block_columns), 2)
    return (
        Strip(2, min(2048, triton.next_power_of_2(columns)), 2)
        if outputs > 16384
        else Strip(2, block_columns, 1)
    )


@triton.jit
def _first(weight, row, there, columns, COLUMNS: tl.constexpr, LINES: tl.constexpr, PDL: tl.constexpr):
    """The first tile of W's rows; the lines behind it are asked for."""
    column = tl.arange(0, COLUMNS)
    at = weight + row.to(tl.int64)[:, None] * columns
    prefetch(at, COLUMNS, columns, LINES, PDL)
    return tl.load(
        at + column[None, :], there[:, None] & (column < columns)[None, :], 0.0, eviction_policy="evict_first"
    )


@triton.jit
def _dot_rows(
    w, weight, row, there, columns, x, norm, NORMED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Σ_k w[row, k] · x[k] · norm[k] and Σ_k x[k]²; `w` is the first tile."""
    column = tl.arange(0, COLUMNS)
    at = weight + row.to(tl.int64)[:, None] * columns + column[None, :]
    acc = tl.zeros([ROWS, COLUMNS], tl.float32)
    square = tl.zeros([COLUMNS], tl.float32)
    for start in tl.range(0, columns, COLUMNS):
        inside = start + column < columns
        value = tl.load(x + start + column, inside, 0.0).to(tl.float32)
        square += value * value
        if NORMED:
            value *= tl.load(norm + start + column, inside, 0.0)
        acc += w.to(tl.float32) * value[None, :]
        ahead = start + COLUMNS + column < columns
        w = tl.load(at + start + COLUMNS, there[:, None] & ahead[None, :], 0.0, eviction_policy="evict_first")
    return tl.sum(acc, 1), tl.sum(square, 0)


@triton.jit
def _matvec(
    x, weight, scale, bias, norm, residual, y, outputs, columns, eps,
    ACT: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr,
    LINES: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    there = row < outputs
    NORMED: tl.constexpr = norm is not None
    # Weights do not depend on the kernel in front: the first are on their way while it finishes.
    w = _first(weight, tl.minimum(row, outputs - 1), there, columns, BLOCK_COLUMNS, LINES, PDL)
    if ACT != "":
        up_row = outputs + tl.minimum(row, outputs - 1)
        up_w = _first(weight, up_row, there, columns, BLOCK_COLUMNS, LINES, PDL)
    wait_for_front(PDL)
    launch_dependents(PDL)
    z, square = _dot_rows(w, weight, row, there, columns, x, norm, NORMED, BLOCK_ROWS, BLOCK_COLUMNS)
    if ACT != "":
        up, _ = _dot_rows(up_w, weight, up_row, there, columns, x, norm, NORMED, BLOCK_ROWS, BLOCK_COLUMNS)
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
