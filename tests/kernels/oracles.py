"""Slow float64 versions of the ops, written from their formulas with loops, and poisoned test inputs.

Shares no code with `kernels/reference.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.e4m3 import to_e4m3

TOLERANCE = {torch.float32: (2e-5, 2e-5), torch.bfloat16: (2e-2, 2e-2), torch.float16: (3e-3, 3e-3)}
"""dtype → (absolute, relative), for values of order one."""

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def assert_close(actual: Tensor, expected: Tensor, slack: Tensor | None = None) -> None:
    """Compares an op's result with a float64 oracle at the tolerance of the result's dtype, and `slack` beside it."""
    absolute, relative = TOLERANCE[actual.dtype]
    if slack is None:
        torch.testing.assert_close(actual.double(), expected.double(), atol=absolute, rtol=relative)
        return
    error = (actual.double() - expected.double()).abs()
    allowed = absolute + relative * expected.double().abs() + slack
    assert (error <= allowed).all(), f"{float((error - allowed).max())} too far"


def fp8_slack(q: Tensor, scale: Tensor, weight: Tensor, weight_scale: Tensor, unit: float) -> Tensor:
    """[T, N]: how far sums of q · w [T, K] × [N, K] may be off that round each step to `unit` of its size, with random
    signs: four times `unit` times the root of the sum of squared products."""
    squares = q.double().square() @ weight.double().square().T
    return 4 * unit * squares.sqrt() * scale.double() * weight_scale.double()


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = x.double()
    return wide / (wide.pow(2).mean(-1, keepdim=True) + eps).sqrt() * weight.double()


def rotate(x: Tensor, angle: Tensor) -> Tensor:
    """x [D] by angles [D / 2], dimension i paired with i + D/2."""
    half = x.shape[0] // 2
    out = torch.empty(x.shape[0], dtype=torch.float64)
    for i in range(half):
        cos, sin = math.cos(float(angle[i])), math.sin(float(angle[i]))
        out[i] = float(x[i]) * cos - float(x[i + half]) * sin
        out[i + half] = float(x[i + half]) * cos + float(x[i]) * sin
    return out


def attention_row(
    q: Tensor, keys: Tensor, values: Tensor, scale: float, window: int | None, soft_cap: float | None
) -> Tensor:
    """q [n, Hq, D] are the last n positions of keys / values [S, Hk, D]; plain float64 softmax."""
    num_queries, num_heads, dim = q.shape
    length, kv_heads, _ = keys.shape
    out = torch.zeros(num_queries, num_heads, dim, dtype=torch.float64)
    for i in range(num_queries):
        position = length - num_queries + i
        first = 0 if window is None else max(0, position - window + 1)
        for head in range(num_heads):
            source = head // (num_heads // kv_heads)
            scores = keys[first : position + 1, source].double() @ q[i, head].double() * scale
            if soft_cap is not None:
                scores = soft_cap * torch.tanh(scores / soft_cap)
            out[i, head] = torch.softmax(scores, 0) @ values[first : position + 1, source].double()
    return out


@dataclass
class PagedCase:
    """Sequences scattered over a pool whose unused slots hold NaN."""

    q: Tensor
    kv: Tensor
    block_table: Tensor
    query_start: Tensor
    seq_lens: Tensor
    keys: list[Tensor]
    values: list[Tensor]
    kv_scale: Tensor | None = None


def paged_case(
    rows: list[tuple[int, int]],
    heads: tuple[int, int],
    dim: int,
    dtype: torch.dtype,
    window: int | None = None,
    layer: tuple[int, int] = (0, 1),
    block: int = 16,
    kv_dtype: torch.dtype | None = None,
) -> PagedCase:
    """With `kv_dtype` e4m3 the pool holds numbers of that format, to be multiplied by a scale a head, and `keys` and
    `values` are the products. `rows` are (num_queries, seq_len). The layer is `layer[0]` of a page of `layer[1]` layers. Pages wholly
    behind the window of a row's oldest query are −1 in its table."""
    num_heads, kv_heads = heads
    pages_of = [-(-length // block) for _, length in rows]
    num_blocks = sum(pages_of) + 3
    pool = torch.full((num_blocks, layer[1], 2, kv_heads, block, dim), float("nan"), dtype=kv_dtype or dtype)
    kv_scale = None if kv_dtype is None else torch.rand(2, kv_heads) / 10 + 0.01
    kv = pool[:, layer[0]]
    order = torch.randperm(num_blocks).tolist()
    table = torch.full((len(rows), max(pages_of) + 2), -1, dtype=torch.int32)
    keys, values = [], []
    for row, (num_queries, length) in enumerate(rows):
        stored = torch.randn(2, length, kv_heads, dim).to(dtype)
        if kv_scale is not None:
            stored = to_e4m3(stored.float() / kv_scale[:, None, :, None])
        scaled = stored if kv_scale is None else stored.double() * kv_scale.double()[:, None, :, None]
        keys.append(scaled[0])
        values.append(scaled[1])
        oldest = 0 if window is None else max(0, length - num_queries - window + 1)
        for index in range(oldest // block, pages_of[row]):
            page = order.pop()
            table[row, index] = page
            span = slice(index * block, min(length, (index + 1) * block))
            size = span.stop - span.start
            kv[page, :, :, :size] = stored[:, span].transpose(1, 2)
    starts = torch.tensor([0, *[n for n, _ in rows]]).cumsum(0).to(torch.int32)
    q = torch.randn(int(starts[-1]), num_heads, dim).to(dtype)
    lens = torch.tensor([length for _, length in rows], dtype=torch.int32)
    return PagedCase(q, kv, table, starts, lens, keys, values, kv_scale)


def check_attention(
    out: Tensor, case: PagedCase, scale: float, window: int | None, soft_cap: float | None
) -> None:
    """Every row of an op's result against that row alone."""
    starts = case.query_start.tolist()
    for row, (keys, values) in enumerate(zip(case.keys, case.values, strict=True)):
        span = slice(starts[row], starts[row + 1])
        assert_close(out[span], attention_row(case.q[span], keys, values, scale, window, soft_cap))
