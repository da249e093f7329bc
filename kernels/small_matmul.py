"""2 to 64 tokens through a weight matrix on the tensor cores, with what stands around it.

    z = scale · (W · xᵀ) + bias,   y = zᵀ + residual   or   act(z[:F]) · z[F:]

Place in the path: layers, for steps of few tokens, → here. CPU tensors go to plain torch, CUDA tensors to Triton.
Knows no model. Such a step is still a walk over the weights at the speed of memory. W stands on the left of the
product, so that the tile's long side is filled by W's rows and its short side by as few tokens as there are. All
programs of a launch are resident at once and each streams an equal share of W; where W has too few rows for that,
the columns are split too, and the last program to arrive adds the parts up in their order, so that the sum does
not depend on timing. All programs read the same x at about the same time, and fewer tokens are fewer lines: for up to 8
of them that costs more than the library does (BENCHMARKS.md). Padding is not read.

W may have a narrower type than x (fp8): it is widened in registers, on its way to the product, and `scale` [N] is
applied to the sum. Shapes are looked up in `kernels/tuned/small_matmul.json`; a shape that is not there takes what
fits its size.

Bytes: N·K·sizeof(w), and N·K/BLOCK_N·M·sizeof(x) from the second-level cache. Sums are fp32.
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
from kernels.split_sum import sum_parts

__all__ = ["MAX_ROWS", "Tile", "small_matmul", "small_matmul_reference", "small_matmul_triton"]

MAX_ROWS = 64


@dataclass(frozen=True, slots=True)
class Tile:
    """How a launch is cut."""

    rows: int
    """W's rows a program (of each half, where gated)."""
    columns: int
    """W's columns a step."""
    splits: int = 1
    """Programs that share the columns of a row."""
    warps: int = 4
    stages: int = 4


def small_matmul(
    x: Tensor,
    weight: Tensor,
    tile: Tile,
    *,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    act: str | None = None,
    residual: Tensor | None = None,
    arrived: Tensor | None = None,
    block_tokens: int | None = None,
) -> Tensor:
    """y [M, N], or [M, N / 2] with `act` ("silu" or "gelu_tanh"; the first half of W's rows is the gate).

    x [M, K] contiguous, weight [N, K] row after row, scale fp32 [N], bias [N], residual [M, N]. `arrived` int32, at
    least ⌈N / tile.rows⌉ zeros, is left as zeros: launches that share it must be ordered. With `block_tokens` M may be
    any number and the tile's short side is that long, whatever M is: then no token's sum depends on the others. Such a
    launch must not split columns.
    """
    if not x.is_cuda:
        return small_matmul_reference(x, weight, scale=scale, bias=bias, act=act, residual=residual)
    return small_matmul_triton(
        x, weight, tile, scale=scale, bias=bias, act=act, residual=residual, arrived=arrived, block_tokens=block_tokens
    )  # fmt: skip


def small_matmul_reference(
    x: Tensor,
    weight: Tensor,
    *,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    act: str | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """The same in plain torch, in fp32 up to the activation."""
    z = functional.linear(x.float(), weight.float())
    if scale is not None:
        z = z * scale
    if bias is not None:
        z = z + bias.float()
    y = z if act is None else reference.gated_act(z, act)
    return (y if residual is None else y + residual.float()).to(x.dtype)


def small_matmul_triton(
    x: Tensor,
    weight: Tensor,
    tile: Tile,
    *,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    act: str | None = None,
    residual: Tensor | None = None,
    arrived: Tensor | None = None,
    block_tokens: int | None = None,
) -> Tensor:
    """The Triton path."""
    (tokens, columns), rows = x.shape, weight.shape[0]
    assert tokens >= 1
    assert tokens <= MAX_ROWS if block_tokens is None else tile.splits == 1
    assert weight.shape[1] == columns
    assert x.is_contiguous()
    assert weight.is_contiguous()
    outputs = rows if act is None else rows // 2
    block_tokens = block_tokens or max(8, triton.next_power_of_2(tokens))
    tiles = triton.cdiv(outputs, tile.rows)
    assert tile.splits == 1 or act is None
    y = torch.empty(tokens, outputs, dtype=x.dtype, device=x.device)
    partial = None
    if tile.splits > 1:
        assert arrived is not None
        assert arrived.shape[0] >= tiles
        partial = torch.empty(
            tile.splits, tiles, tile.rows, block_tokens, dtype=torch.float32, device=x.device
        )
    span = triton.cdiv(triton.cdiv(columns, tile.splits), tile.columns) * tile.columns
    _small_matmul[(tiles, tile.splits, triton.cdiv(tokens, block_tokens))](
        x, weight, scale, bias, residual, y, partial, arrived, tokens, outputs, columns, span,
        ACT=act or "", SPLITS=tile.splits, TOKENS=block_tokens, ROWS=tile.rows, COLUMNS=tile.columns,
        EVEN=columns % (tile.columns * tile.splits) == 0,
        PRECISION="ieee" if x.dtype == torch.float32 else "tf32",
        PDL=x.is_cuda, num_warps=tile.warps, num_stages=tile.stages, **pdl_options(x),
    )  # fmt: skip
    return y


@triton.jit(do_not_specialize=["tokens"])
def _small_matmul(
    x, weight, scale, bias, residual, y, partial, arrived, tokens, outputs, columns, span,
    ACT: tl.constexpr, SPLITS: tl.constexpr, TOKENS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    EVEN: tl.constexpr, PRECISION: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    tile, part = tl.program_id(0), tl.program_id(1)
    row, token = tile * ROWS + tl.arange(0, ROWS), tl.arange(0, TOKENS)
    before = tl.program_id(2).to(tl.int64) * TOKENS
    tokens -= before
    x += before * columns
    y += before * outputs
    if residual is not None:
        residual += before * outputs
    first, end = part * span, tl.minimum((part + 1) * span, columns)
    # Rows past the end repeat the last one; they are not stored.
    weight_row = tl.minimum(row, outputs - 1).to(tl.int64)[:, None] * columns
    up_row = weight_row + outputs.to(tl.int64) * columns
    wait_for_front(PDL)
    if SPLITS > 1:
        launch_dependents(PDL)

    column = tl.arange(0, COLUMNS)
    x_row, real = token[:, None] * columns, (token < tokens)[:, None]
    acc = tl.zeros([ROWS, TOKENS], tl.float32)
    up = tl.zeros([ROWS, TOKENS], tl.float32)
    for start in tl.range(first, end, COLUMNS):
        k = (start + column)[None, :]
        there = None if EVEN else k < end
        other = None if EVEN else 0.0
        w = tl.load(weight + weight_row + k, there, other, eviction_policy="evict_first")
        x_there = real if EVEN else real & there
        tokens_tile = tl.trans(tl.load(x + x_row + k, x_there, 0.0))
        acc = tl.dot(w.to(x.dtype.element_ty), tokens_tile, acc, input_precision=PRECISION)
        if ACT != "":
            w = tl.load(weight + up_row + k, there, other, eviction_policy="evict_first")
            up = tl.dot(w.to(x.dtype.element_ty), tokens_tile, up, input_precision=PRECISION)

    if SPLITS == 1:
        # What follows is short: the next kernel's programs find room and their first weights meanwhile.
        launch_dependents(PDL)
    else:
        acc, last = sum_parts(acc, partial, arrived, tile, part, tl.num_programs(0), SPLITS)
        if not last:
            return
    there = row < outputs
    if scale is not None:
        acc *= tl.load(scale + row, there, 0)[:, None]
        if ACT != "":
            up *= tl.load(scale + outputs + row, there, 0)[:, None]
    if bias is not None:
        acc += tl.load(bias + row, there, 0).to(tl.float32)[:, None]
        if ACT != "":
            up += tl.load(bias + outputs + row, there, 0).to(tl.float32)[:, None]
    if ACT == "silu":
        acc = acc * tl.sigmoid(acc) * up
    elif ACT == "gelu_tanh":
        acc = acc * tl.sigmoid(1.5957691216057308 * (acc + 0.044715 * acc * acc * acc)) * up
    cell = (token < tokens)[:, None] & there[None, :]
    at = token[:, None] * outputs + row[None, :]
    z = tl.trans(acc)
    if residual is not None:
        z += tl.load(residual + at, cell, 0).to(tl.float32)
    tl.store(y + at, z, cell)
