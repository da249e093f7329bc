"""One token through a weight matrix, with what stands around it: norm in front, activation or residual behind.

    z = W · (x / sqrt(mean(x²) + eps) · norm) + bias,   y = z + residual   or   act(z[:F]) · z[F:]

Place in the path: layers, for steps of a single token, → here. CPU tensors go to plain torch, CUDA tensors to
Triton. Knows no model. A step of one token is a walk over the weights at the speed of memory; cuBLAS reaches 55 to
82 % of it at these shapes. Here each program takes a few rows of W, multiplies on the FMA units (2 operations per
weight leave them idle enough), and asks for its first weights before the kernel in front has finished
(`dependent_launch`). The norm's scale is applied after the sum.

Most products are cut into strips: few rows a program, a piece of the columns at a time, as many programs as there are
strips. A gated one is shared: as many programs as fit the device go from pair to pair of whole rows, with x · norm in
registers and the next pair under way.

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
from kernels.dependent_launch import launch_dependents, pdl_options, wait_for_front

__all__ = ["Strip", "matvec", "matvec_reference", "matvec_triton"]

_SHARED_PROGRAMS = 4 * 132
"""Of four warps each: four on a multiprocessor of a Hopper card."""


@dataclass(frozen=True, slots=True)
class Strip:
    """How a launch is cut."""

    rows: int
    """W's rows a program."""
    columns: int
    """W's columns a step."""
    warps: int


def matvec(
    x: Tensor,
    weight: Tensor,
    *,
    bias: Tensor | None = None,
    norm: Tensor | None = None,
    eps: float = 0.0,
    act: str | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """y [1, N], or [1, N / 2] with `act` ("silu" or "gelu_tanh"; the first half of W's rows is the gate).

    x [1, K], weight [N, K] row after row, bias [N], norm fp32 [K], residual [1, N].
    """
    run = matvec_triton if x.is_cuda else matvec_reference
    return run(x, weight, bias=bias, norm=norm, eps=eps, act=act, residual=residual)


def matvec_reference(
    x: Tensor,
    weight: Tensor,
    *,
    bias: Tensor | None = None,
    norm: Tensor | None = None,
    eps: float = 0.0,
    act: str | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """The same in plain torch, rounding to x's dtype between the ops."""
    if norm is not None:
        x, _ = reference.rms_norm(x, norm, eps)
    y = functional.linear(x, weight, bias)
    if act is not None:
        y = reference.gated_act(y, act)
    return y if residual is None else y + residual


def matvec_triton(
    x: Tensor,
    weight: Tensor,
    *,
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
    if act is not None:
        _gated_matvec[(min(outputs, _SHARED_PROGRAMS),)](
            x, weight, bias, norm, residual, y, outputs, columns, eps,
            ACT=act, COLUMNS=triton.next_power_of_2(columns), PDL=x.is_cuda, num_warps=4, **pdl_options(x),
        )  # fmt: skip
        return y
    strip = strip or _strip(outputs, columns)
    _matvec[(triton.cdiv(outputs, strip.rows),)](
        x, weight, bias, norm, residual, y, outputs, columns, eps,
        BLOCK_ROWS=strip.rows, BLOCK_COLUMNS=strip.columns, PDL=x.is_cuda, num_warps=strip.warps, **pdl_options(x),
    )  # fmt: skip
    return y


def _strip(outputs: int, columns: int) -> Strip:
    """Measured on an H200: many programs of few warps, so that some begin while others end."""
    whole = triton.next_power_of_2(columns)
    return Strip(2, min(2048, whole), 2) if outputs > 16384 else Strip(2, min(1024, whole), 1)


@triton.jit
def _tile(weight, row, start, columns, COLUMNS: tl.constexpr):
    """W's rows (numbers past the end have been clamped), COLUMNS columns from `start` on."""
    column = start + tl.arange(0, COLUMNS)
    at = weight + row.to(tl.int64)[:, None] * columns + column[None, :]
    return tl.load(at, (column < columns)[None, :], 0.0, eviction_policy="evict_first")


@triton.jit
def _matvec(
    x, weight, bias, norm, residual, y, outputs, columns, eps,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    there = row < outputs
    weight_row = tl.minimum(row, outputs - 1)
    # Weights do not depend on the kernel in front: the first are on their way while it finishes.
    w = _tile(weight, weight_row, 0, columns, BLOCK_COLUMNS)
    wait_for_front(PDL)
    launch_dependents(PDL)
    column = tl.arange(0, BLOCK_COLUMNS)
    acc = tl.zeros([BLOCK_ROWS, BLOCK_COLUMNS], tl.float32)
    square = tl.zeros([BLOCK_COLUMNS], tl.float32)
    for start in tl.range(0, columns, BLOCK_COLUMNS):
        inside = start + column < columns
        value = tl.load(x + start + column, inside, 0.0).to(tl.float32)
        if norm is not None:
            square += value * value
            value *= tl.load(norm + start + column, inside, 0.0)
        acc += w.to(tl.float32) * value[None, :]
        w = _tile(weight, weight_row, start + BLOCK_COLUMNS, columns, BLOCK_COLUMNS)
    z = tl.sum(acc, 1)
    if norm is not None:
        z *= 1 / tl.sqrt_rn(tl.sum(square, 0) / columns + eps)
    if bias is not None:
        z += tl.load(bias + weight_row).to(tl.float32)
    if residual is not None:
        z += tl.load(residual + row, there, 0).to(tl.float32)
    tl.store(y + row, z, there)


@triton.jit
def _gated_matvec(
    x, weight, bias, norm, residual, y, outputs, columns, eps,
    ACT: tl.constexpr, COLUMNS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    first, stride = tl.program_id(0), tl.num_programs(0)
    half = tl.arange(0, 2) * outputs
    w = _tile(weight, first + half, 0, columns, COLUMNS)
    wait_for_front(PDL)
    launch_dependents(PDL)
    column = tl.arange(0, COLUMNS)
    value = tl.load(x + column, column < columns, 0.0).to(tl.float32)
    inverse_rms = 1.0
    if norm is not None:
        inverse_rms = 1 / tl.sqrt_rn(tl.sum(value * value, 0) / columns + eps)
        value *= tl.load(norm + column, column < columns, 0.0)
    for row in tl.range(first, outputs, stride):
        both = tl.sum(w.to(tl.float32) * value[None, :], 1) * inverse_rms
        w = _tile(weight, tl.minimum(row + stride, outputs - 1) + half, 0, columns, COLUMNS)
        if bias is not None:
            both += tl.load(bias + row + half).to(tl.float32)
        z = tl.sum(tl.where(half == 0, both, 0.0), 0)
        up = tl.sum(tl.where(half == 0, 0.0, both), 0)
        if ACT == "silu":
            z = z * tl.sigmoid(z) * up
        else:
            z = z * tl.sigmoid(1.5957691216057308 * (z + 0.044715 * z * z * z)) * up
        if residual is not None:
            z += tl.load(residual + row).to(tl.float32)
        tl.store(y + row, z)
