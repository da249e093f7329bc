"""Products with fp8 weights: y[t, n] = Σ_k q[t, k] · w[n, k] · s[t] · r[n] + bias[n] + residual[t, n].

Place in the path: layers with fp8 weights → here. q is e4m3 with one scale a row (`kernels/quantize.py`), w e4m3 [N, K]
row after row with one scale a row. CPU tensors go to plain torch; on a GPU steps of few tokens go to Triton, whose tiles
are small enough that all multiprocessors read weights (one token: `kernels/matvec_fp8.py`), and the others to the
library's scaled product. Sums are fp32; of fp8 products a Hopper tensor core keeps about 14 bits between them.
Knows no model. The weights stand on the left, where the tensor cores take no fewer than 64 rows; tokens fill the short
side.

Bytes: N·K; operations: 2·T·N·K at twice the bf16 rate. Measured (H200, the four products of a Llama-3-8B layer, floor
48.4 µs): 8 tokens 67.7 µs, 32 tokens 69.9, 64 tokens 72.3; the library 101 to 103. With the residual, from 65 tokens on:
the out projection of 128 tokens 9.0 against the library's 15.6, of 256 10.9 against 16.1; the down projection 23.5 against
39.6 and 30.6 against 41.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.dependent_launch import launch_dependents, pdl_options, wait_for_front
from kernels.matvec_fp8 import WORD, matvec_fp8_triton
from kernels.split_sum import sum_parts

__all__ = [
    "Launch",
    "arrivals",
    "choose_launch",
    "matmul_fp8",
    "matmul_fp8_reference",
    "matmul_fp8_triton",
    "takes_vector",
]


@dataclass(frozen=True, slots=True)
class Launch:
    """How a product is cut."""

    tokens: int
    rows: int
    """Tokens and rows of the weight a program."""
    columns: int
    """Columns a step."""
    splits: int = 1
    """Programs that share the columns of a tile."""
    warps: int = 4
    stages: int = 4


def matmul_fp8(
    q: Tensor,
    scale: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    dtype: torch.dtype,
    *,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    arrived: Tensor | None = None,
    launch: Launch | None = None,
) -> Tensor:
    """y [T, N] in `dtype`. q [T, K] e4m3, scale fp32 [T, 1], weight [N, K] e4m3, weight_scale fp32 [N], bias [N],
    residual [T, N] in `dtype`; arrived int32 [`arrivals(N)`] zeros, left as zeros: launches that share it must be
    ordered. With `launch` steps of every size are cut so: then no token's sum depends on the others."""
    if not q.is_cuda:
        return matmul_fp8_reference(q, scale, weight, weight_scale, dtype, bias=bias, residual=residual)
    if launch is None and takes_vector(q):
        return matvec_fp8_triton(q, scale, weight, weight_scale, dtype, bias=bias, residual=residual)
    launch = launch or choose_launch(q.shape[0], *weight.shape, may_split=arrived is not None)
    if launch is not None:
        return matmul_fp8_triton(
            q, scale, weight, weight_scale, dtype, launch, bias=bias, residual=residual, arrived=arrived
        )  # fmt: skip
    y = torch._scaled_mm(
        q,
        weight.t(),
        scale_a=scale,
        scale_b=weight_scale[None],
        bias=bias,
        out_dtype=dtype,
        use_fast_accum=True,
    )
    return y if residual is None else y.add_(residual)


def takes_vector(x: Tensor) -> bool:
    """Whether x [T, K] is multiplied by `kernels/matvec_fp8.py`: a single token on a GPU."""
    return x.is_cuda and x.shape[0] == 1 and x.shape[1] % WORD == 0


def arrivals(outputs: int) -> int:
    """How many counters a product with `outputs` rows may need: launches that split columns have up to four tiles of
    tokens, and no tile has fewer than 16 rows."""
    return 4 * -(-outputs // 16)


def matmul_fp8_reference(
    q: Tensor,
    scale: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    dtype: torch.dtype,
    *,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """The same in plain torch."""
    y = (q.float() @ weight.float().T) * scale * weight_scale
    for addend in (bias, residual):
        y = y if addend is None else y + addend.float()
    return y.to(dtype)


def matmul_fp8_triton(
    q: Tensor,
    scale: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    dtype: torch.dtype,
    launch: Launch,
    *,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    arrived: Tensor | None = None,
) -> Tensor:
    """The Triton path. `arrived` int32, at least one zero a tile, is needed by launches that split columns, and left
    as zeros."""
    tokens, columns = q.shape
    outputs = weight.shape[0]
    assert weight.is_contiguous()
    assert q.is_contiguous()
    assert residual is None or residual.is_contiguous()
    block_columns = min(launch.columns, triton.next_power_of_2(columns))
    tiles = triton.cdiv(outputs, launch.rows), triton.cdiv(tokens, launch.tokens)
    y = torch.empty(tokens, outputs, dtype=dtype, device=q.device)
    partial = None
    if launch.splits > 1:
        assert arrived is not None
        assert arrived.shape[0] >= tiles[0] * tiles[1]
        size = launch.splits, tiles[0] * tiles[1], launch.rows * launch.tokens
        partial = torch.empty(size, dtype=torch.float32, device=q.device)
    span = triton.cdiv(triton.cdiv(columns, launch.splits), block_columns) * block_columns
    _matmul_fp8[(*tiles, launch.splits)](
        q, scale, weight, weight_scale, bias, residual, y, partial, arrived, tokens, outputs, columns, span,
        EVEN=columns % (block_columns * launch.splits) == 0, SPLITS=launch.splits, TOKENS=launch.tokens,
        ROWS=launch.rows, COLUMNS=block_columns, PDL=q.is_cuda, num_warps=launch.warps, num_stages=launch.stages,
        **pdl_options(q),
    )  # fmt: skip
    return y


def choose_launch(tokens: int, outputs: int, columns: int, *, may_split: bool) -> Launch | None:
    """None if the library is faster. Measured on an H200: up to 64 tokens some 250 programs, each with two or three steps of
    16 KiB in flight; beyond, only where the library leaves multiprocessors idle."""
    block_tokens = min(64, max(16, triton.next_power_of_2(tokens)))
    if tokens <= 64 and outputs > 16384:
        return Launch(64, 64, 128, warps=4, stages=6) if block_tokens == 64 else Launch(block_tokens, 64, 256)
    if tokens <= 64:
        splits = 4 if block_tokens < 64 else 2 if columns > 8192 else 1
        return Launch(block_tokens, 64, 256, splits if outputs <= 4096 and may_split else 1)
    if tokens <= 128 and outputs <= 4096 and columns <= 8192:
        return Launch(64, 64, 256)
    if (tokens <= 128 and outputs <= 8192) or (tokens <= 256 and outputs <= 4096):
        return Launch(128, 64, 256, 2 if tokens <= 128 and columns > 8192 and may_split else 1)
    return None


@triton.jit(do_not_specialize=["tokens"])
def _matmul_fp8(
    q, scale, weight, weight_scale, bias, residual, y, partial, arrived, tokens, outputs, columns, span,
    EVEN: tl.constexpr, SPLITS: tl.constexpr, TOKENS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    first = tl.program_id(2) * span
    end = tl.minimum(first + span, columns)
    # Rows past the end repeat the last one; they are not stored. Tokens past it are not read: so many programs asking for
    # one token's lines wait for each other.
    here = token < tokens
    q_at = q + token.to(tl.int64)[:, None] * columns
    w_at = weight + tl.minimum(row, outputs - 1).to(tl.int64)[:, None] * columns
    acc = tl.zeros([ROWS, TOKENS], tl.float32)
    wait_for_front(PDL)
    launch_dependents(PDL)
    for start in tl.range(first, end, COLUMNS):
        k = (start + column)[None, :]
        there = None if EVEN else k < end
        w = tl.load(w_at + k, there, None if EVEN else 0.0, eviction_policy="evict_first")
        x = tl.load(q_at + k, here[:, None] if EVEN else here[:, None] & (k < end), 0.0)
        acc = tl.dot(w, tl.trans(x), acc)
    if SPLITS > 1:
        tile = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
        tiles = tl.num_programs(0) * tl.num_programs(1)
        acc, last = sum_parts(acc, partial, arrived, tile, tl.program_id(2), tiles, SPLITS)
        if not last:
            return
    acc = tl.trans(acc)
    there = row < outputs
    acc *= tl.load(scale + token, here, 0)[:, None] * tl.load(weight_scale + row, there, 0)[None, :]
    if bias is not None:
        acc += tl.load(bias + row, there, 0).to(tl.float32)[None, :]
    cell = here[:, None] & there[None, :]
    at = token.to(tl.int64)[:, None] * outputs + row[None, :]
    if residual is not None:
        acc += tl.load(residual + at, cell, 0).to(tl.float32)
    tl.store(y + at, acc, cell)
