"""Products with fp8 weights: y[t, n] = Σ_k q[t, k] · w[n, k] · s[t] · r[n] + bias[n] + residual[t, n].

Place in the path: layers with fp8 weights, for steps of two tokens and more → here. q is e4m3 with one scale a row
(`kernels/quantize.py`), w e4m3 [N, K] row after row with one scale a row. CPU tensors go to plain torch; on a GPU steps
of few tokens go to Triton, whose tiles are small enough that all multiprocessors read weights, and the others to the
library's scaled product. Sums are fp32. Knows no model.

Bytes: N·K; operations: 2·T·N·K at twice the bf16 rate.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["matmul_fp8", "matmul_fp8_reference", "matmul_fp8_triton"]

_ROWS_MAX = 128
"""Steps of more tokens go to the library."""
Launch = tuple[int, int, int, int]
"""Weight rows a program, columns a step, warps, stages."""


def matmul_fp8(
    q: Tensor,
    scale: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    dtype: torch.dtype,
    *,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """y [T, N] in `dtype`. q [T, K] e4m3, scale fp32 [T, 1], weight [N, K] e4m3, weight_scale fp32 [N], bias [N],
    residual [T, N] in `dtype`."""
    if not q.is_cuda:
        return matmul_fp8_reference(q, scale, weight, weight_scale, dtype, bias=bias, residual=residual)
    if q.shape[0] <= _ROWS_MAX:
        return matmul_fp8_triton(q, scale, weight, weight_scale, dtype, bias=bias, residual=residual)
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
    *,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    launch: Launch | None = None,
) -> Tensor:
    """The Triton path. `launch` is for tuning."""
    tokens, columns = q.shape
    outputs = weight.shape[0]
    assert weight.is_contiguous()
    assert q.is_contiguous()
    assert residual is None or residual.is_contiguous()
    y = torch.empty(tokens, outputs, dtype=dtype, device=q.device)
    block_tokens = min(64, max(16, triton.next_power_of_2(tokens)))
    block_rows, block_columns, warps, stages = launch or _launch(outputs, columns)
    block_columns = min(block_columns, triton.next_power_of_2(columns))
    on_gpu = {"launch_pdl": True} if q.is_cuda else {}
    grid = (triton.cdiv(outputs, block_rows), triton.cdiv(tokens, block_tokens))
    _matmul_fp8[grid](
        q, scale, weight, weight_scale, bias, residual, y, tokens, outputs, columns,
        EVEN=columns % block_columns == 0, BLOCK_TOKENS=block_tokens, BLOCK_ROWS=block_rows,
        BLOCK_COLUMNS=block_columns, PDL=q.is_cuda, num_warps=warps, num_stages=stages, **on_gpu,
    )  # fmt: skip
    return y


def _launch(outputs: int, columns: int) -> Launch:
    return (32 if outputs > 4096 else 16), 256, 4, 5


@triton.jit(do_not_specialize=["tokens"])
def _matmul_fp8(
    q, scale, weight, weight_scale, bias, residual, y, tokens, outputs, columns,
    EVEN: tl.constexpr, BLOCK_TOKENS: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(1) * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    column = tl.arange(0, BLOCK_COLUMNS)
    q_at = q + token.to(tl.int64)[:, None] * columns + column[None, :]
    w_at = weight + row.to(tl.int64)[:, None] * columns + column[None, :]
    here, there = (token < tokens)[:, None], (row < outputs)[:, None]
    acc = tl.zeros([BLOCK_TOKENS, BLOCK_ROWS], tl.float32)
    if PDL:
        tl.extra.cuda.gdc_wait()
    for start in tl.range(0, columns, BLOCK_COLUMNS):
        if EVEN:
            w = tl.load(w_at, there, 0.0, eviction_policy="evict_first")
            x = tl.load(q_at, here, 0.0)
        else:
            inside = (start + column < columns)[None, :]
            w = tl.load(w_at, there & inside, 0.0, eviction_policy="evict_first")
            x = tl.load(q_at, here & inside, 0.0)
        acc = tl.dot(x, tl.trans(w), acc)
        w_at += BLOCK_COLUMNS
        q_at += BLOCK_COLUMNS
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    acc *= (
        tl.load(scale + token, token < tokens, 0)[:, None]
        * tl.load(weight_scale + row, row < outputs, 0)[None, :]
    )
    if bias is not None:
        acc += tl.load(bias + row, row < outputs, 0).to(tl.float32)[None, :]
    cell = here & (row < outputs)[None, :]
    at = token.to(tl.int64)[:, None] * outputs + row[None, :]
    if residual is not None:
        acc += tl.load(residual + at, cell, 0).to(tl.float32)
    tl.store(y + at, acc, cell)
