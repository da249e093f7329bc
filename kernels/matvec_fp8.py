"""One token through an fp8 weight matrix, with what stands around it: norm in front, activation or residual behind.

    z[n] = s · r[n] · Σ_k e4m3(v[k] / s) · w[n, k] + bias[n],   v = x or norm(x),   s = max |v| / 448
    y = z + residual   or   act(z[:F]) · z[F:]

Place in the path: layers with fp8 weights, for steps of a single token, → here. CPU tensors go to plain torch, CUDA
tensors to Triton. Knows no model. The same numbers as `kernels/quantize.py` and `kernels/matmul_fp8.py` in one launch:
every program finds the scale of x for itself (x is 8 to 28 KiB in the second-level cache) and quantises the columns
that it is about to multiply. The products run on the tensor cores, whose eight columns all get the same x: widening
8-bit weights for the FMA units takes twice as long as reading them.

Bytes: N·K. Sums are fp32.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels import reference
from kernels.dependent_launch import launch_dependents, lines_ahead, pdl_options, prefetch, wait_for_front
from kernels.e4m3 import to_e4m3_triton
from kernels.matmul_fp8 import matmul_fp8_reference
from kernels.quantize import quantize_rows, rms_norm_fp8
from kernels.small_matmul import Tile

__all__ = ["matvec_fp8", "matvec_fp8_reference", "matvec_fp8_triton"]

_COPIES = 8
"""Columns of the tensor cores' smallest product."""


def matvec_fp8(
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    *,
    bias: Tensor | None = None,
    norm: Tensor | None = None,
    eps: float = 0.0,
    act: str | None = None,
    residual: Tensor | None = None,
    arrived: Tensor | None = None,
) -> Tensor:
    """y [1, N], or [1, N / 2] with `act` ("silu" or "gelu_tanh"; the first half of W's rows is the gate).

    x [1, K], weight [N, K] e4m3 row after row, scale fp32 [N] of its rows, bias [N], norm fp32 [K], residual [1, N].
    `arrived` as for `kernels.matmul_fp8`.
    """
    if not x.is_cuda:
        return matvec_fp8_reference(
            x, weight, scale, bias=bias, norm=norm, eps=eps, act=act, residual=residual
        )
    return matvec_fp8_triton(
        x, weight, scale, bias=bias, norm=norm, eps=eps, act=act, residual=residual, arrived=arrived
    )


def matvec_fp8_reference(
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    *,
    bias: Tensor | None = None,
    norm: Tensor | None = None,
    eps: float = 0.0,
    act: str | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """The same in plain torch."""
    rows = quantize_rows(x) if norm is None else rms_norm_fp8(x, norm, eps)
    y = matmul_fp8_reference(*rows, weight, scale, torch.float32, bias=bias)
    if act is not None:
        y = reference.gated_act(y, act)
    return (y if residual is None else y + residual.float()).to(x.dtype)


def matvec_fp8_triton(
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    *,
    bias: Tensor | None = None,
    norm: Tensor | None = None,
    eps: float = 0.0,
    act: str | None = None,
    residual: Tensor | None = None,
    arrived: Tensor | None = None,
    tile: Tile | None = None,
) -> Tensor:
    """The Triton path. `tile` is for tuning."""
    rows, columns = weight.shape
    assert x.shape == (1, columns)
    assert x.is_contiguous()
    assert weight.is_contiguous()
    outputs = rows if act is None else rows // 2
    tile = tile or _tile(outputs, gated=act is not None, may_split=arrived is not None)
    step = min(tile.columns, triton.next_power_of_2(columns))
    tiles = triton.cdiv(outputs, tile.rows)
    y = torch.empty(1, outputs, dtype=x.dtype, device=x.device)
    partial = None
    if tile.splits > 1:
        assert act is None
        assert arrived is not None
        assert arrived.shape[0] >= tiles
        partial = torch.empty(tile.splits, tiles, tile.rows, dtype=torch.float32, device=x.device)
    span = triton.cdiv(triton.cdiv(columns, tile.splits), step) * step
    _matvec_fp8[(tiles, tile.splits)](
        x, weight, scale, bias, norm, residual, y, partial, arrived, outputs, columns, span, eps,
        ACT=act or "", EVEN=columns % (step * tile.splits) == 0, SPLITS=tile.splits, COPIES=_COPIES,
        ROWS=tile.rows, STEP=step, WHOLE=triton.next_power_of_2(columns), LINES=lines_ahead(tile.ahead, weight),
        PDL=x.is_cuda, num_warps=tile.warps, num_stages=tile.stages, **pdl_options(x),
    )  # fmt: skip
    return y


def _tile(outputs: int, *, gated: bool, may_split: bool) -> Tile:
    if gated:
        return Tile(64, 128, 1, 4, 5)
    return Tile(64, 256, 4 if outputs <= 4096 and may_split else 1, 4, 4)


@triton.jit
def _scale_of(x, norm, columns, eps, WHOLE: tl.constexpr):
    """1 / rms(x), and the scale of x or norm(x), in the order of operations of `kernels.quantize`."""
    column = tl.arange(0, WHOLE)
    value = tl.load(x + column, column < columns, 0).to(tl.float32)
    inverse_rms = 1.0
    if norm is not None:
        inverse_rms = 1 / tl.sqrt_rn(tl.sum(value * value, 0) / columns + eps)
        value = value * inverse_rms * tl.load(norm + column, column < columns, 0)
    return inverse_rms, tl.maximum(tl.max(tl.abs(value), 0), 1e-12) / 448


@triton.jit
def _sum_parts(z, partial, arrived, SPLITS: tl.constexpr, ROWS: tl.constexpr):
    """The sum over a tile's parts, in their order, and whether this program is the one that has it."""
    tile, tiles, inner = tl.program_id(0), tl.num_programs(0), tl.arange(0, ROWS)
    tl.store(partial + (tl.program_id(1) * tiles + tile) * ROWS + inner, z)
    tl.debug_barrier()  # all of this program's stores come before its arrival
    last = tl.atomic_add(arrived + tile, 1, sem="acq_rel") == SPLITS - 1
    if last:
        tl.store(arrived + tile, 0)
        z = tl.zeros([ROWS], tl.float32)
        for number in tl.static_range(SPLITS):
            # .cg: other programs wrote these; this multiprocessor's L1 may be stale.
            z += tl.load(partial + (number * tiles + tile) * ROWS + inner, cache_modifier=".cg")
    return z, last


@triton.jit
def _matvec_fp8(
    x, weight, scale, bias, norm, residual, y, partial, arrived, outputs, columns, span, eps,
    ACT: tl.constexpr, EVEN: tl.constexpr, SPLITS: tl.constexpr, COPIES: tl.constexpr, ROWS: tl.constexpr,
    STEP: tl.constexpr, WHOLE: tl.constexpr, LINES: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    first = tl.program_id(1) * span
    end = tl.minimum(first + span, columns)
    # Rows past the end repeat the last one; they are not stored.
    w_at = weight + tl.minimum(row, outputs - 1).to(tl.int64)[:, None] * columns
    up_at = w_at + outputs.to(tl.int64) * columns
    prefetch(w_at, first, end, LINES, PDL)
    if ACT != "":
        prefetch(up_at, first, end, LINES, PDL)
    wait_for_front(PDL)
    launch_dependents(PDL)

    inverse_rms, x_scale = _scale_of(x, norm, columns, eps, WHOLE)
    z = tl.zeros([ROWS, COPIES], tl.float32)
    up = tl.zeros([ROWS, COPIES], tl.float32)
    for start in tl.range(first, end, STEP):
        k = start + tl.arange(0, STEP)
        there = None if EVEN else (k < end)[None, :]
        other = None if EVEN else 0.0
        w = tl.load(w_at + k[None, :], there, other, eviction_policy="evict_first")
        value = tl.load(x + k, k < end, 0).to(tl.float32)
        if norm is not None:
            value = value * inverse_rms * tl.load(norm + k, k < end, 0)
        q = to_e4m3_triton(tl.div_rn(value, x_scale))
        q = tl.trans(tl.broadcast_to(q[None, :], (COPIES, STEP)))
        z = tl.dot(w, q, z)
        if ACT != "":
            w = tl.load(up_at + k[None, :], there, other, eviction_policy="evict_first")
            up = tl.dot(w, q, up)

    # All columns are alike, and the sum of eight equal numbers is exact.
    total, total_up = tl.sum(z, 1) * (1 / COPIES), tl.sum(up, 1) * (1 / COPIES)
    if SPLITS > 1:
        total, last = _sum_parts(total, partial, arrived, SPLITS, ROWS)
        if not last:
            return
    here = row < outputs
    total *= x_scale * tl.load(scale + row, here, 0)
    if ACT != "":
        total_up *= x_scale * tl.load(scale + outputs + row, here, 0)
    if bias is not None:
        total += tl.load(bias + row, here, 0).to(tl.float32)
        if ACT != "":
            total_up += tl.load(bias + outputs + row, here, 0).to(tl.float32)
    if ACT == "silu":
        total = total * tl.sigmoid(total) * total_up
    elif ACT == "gelu_tanh":
        total = total * tl.sigmoid(1.5957691216057308 * (total + 0.044715 * total * total * total)) * total_up
    if residual is not None:
        total += tl.load(residual + row, here, 0).to(tl.float32)
    tl.store(y + row, total, here)
