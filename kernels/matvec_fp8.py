"""One quantised token through an fp8 weight, with what stands behind the product: bias, residual or activation.

    z[n] = s · r[n] · Σ_k q[k] · w[n, k] + bias[n],   y = z + residual   or   act(z[:F]) · z[F:]

Place in the path: `kernels/matmul_fp8.py`, for steps of a single token → here. CUDA tensors only (or Triton's
interpreter). Knows no model. q and w are read as words of four e4m3 numbers, because Triton takes a tensor of 8-bit
numbers apart and puts it together again, which costs six instructions a weight where two are enough: a pair of e4m3
becomes a pair of fp16 in one, and so is their product, exactly (the token is divided by 8 so that 448 · 448 fits).
The two words of products are added in fp16, which holds sums of two such products to 11 bits; all further sums are fp32.

Bytes: N·K. A program takes a strip of a few rows, a piece of the columns at a time, and asks for its first weights before
the kernel in front has finished (`dependent_launch`). Measured (H200, the four products of a Llama-3-8B layer, floor
48.4 µs): 55.9 µs, where a tensor-core product of one token took 80.8.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.dependent_launch import launch_dependents, pdl_options, wait_for_front

__all__ = ["WORD", "Strip", "matvec_fp8_triton"]

WORD = 4
"""Columns are a multiple of this: e4m3 numbers of a 32-bit word."""


@dataclass(frozen=True, slots=True)
class Strip:
    """How a launch is cut."""

    rows: int
    """W's rows a program (pairs of rows with an activation)."""
    words: int
    """Words of a row a step."""
    warps: int


def matvec_fp8_triton(
    q: Tensor,
    scale: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    dtype: torch.dtype,
    *,
    bias: Tensor | None = None,
    act: str | None = None,
    residual: Tensor | None = None,
    strip: Strip | None = None,
) -> Tensor:
    """y [1, N] in `dtype`, or [1, N / 2] with `act` ("silu" or "gelu_tanh"; the first half of W's rows is the gate).

    q [1, K] e4m3, K a multiple of `WORD`, scale fp32 [1, 1], weight [N, K] e4m3, weight_scale fp32 [N], bias [N],
    residual [1, N]. `strip` is for tuning.
    """
    rows, columns = weight.shape
    assert q.shape == (1, columns)
    assert columns % WORD == 0
    assert q.is_contiguous()
    assert weight.is_contiguous()
    outputs = rows if act is None else rows // 2
    strip = strip or _strip(rows, columns)
    y = torch.empty(1, outputs, dtype=dtype, device=q.device)
    words = columns // WORD
    _matvec_fp8[(triton.cdiv(outputs, strip.rows),)](
        q.view(torch.int32), scale, weight.view(torch.int32), weight_scale, bias, residual, y, outputs, words,
        ACT=act, ROWS=strip.rows, WORDS=strip.words, EVEN=words % strip.words == 0, ON_DEVICE=q.is_cuda,
        num_warps=strip.warps, **pdl_options(q),
    )  # fmt: skip
    return y


def _strip(rows: int, columns: int) -> Strip:
    """Measured on an H200."""
    whole = triton.next_power_of_2(columns // WORD)
    if columns > 8192:
        return Strip(4, min(512, whole), 4)
    return (
        Strip(2, min(256, whole), 2)
        if 4096 < rows <= 16384
        else Strip(1 if rows > 16384 else 2, min(512, whole), 2)
    )


@triton.jit
def _pairs(word, ON_DEVICE: tl.constexpr):
    """Two words of two fp16 each: an eighth of the four numbers of `word`."""
    if ON_DEVICE:
        return tl.inline_asm_elementwise(
            """{
            .reg .b16 first, second;
            .reg .b32 eighth;
            mov.b32 eighth, 0x30003000;
            mov.b32 {first, second}, $2;
            cvt.rn.f16x2.e4m3x2 $0, first;
            cvt.rn.f16x2.e4m3x2 $1, second;
            mul.rn.f16x2 $0, $0, eighth;
            mul.rn.f16x2 $1, $1, eighth;
            }""",
            "=r,=r,r",
            [word],
            dtype=(tl.int32, tl.int32),
            is_pure=True,
            pack=1,
        )
    return word, word


@triton.jit
def _number(word, INDEX: tl.constexpr):
    return ((word >> (8 * INDEX)) & 0xFF).to(tl.uint8).to(tl.float8e4nv, bitcast=True).to(tl.float32)


@triton.jit
def _dot(word, first, second, ON_DEVICE: tl.constexpr):
    """fp32: the sum of the four numbers of `word` times those that `_pairs` made first and second of."""
    if ON_DEVICE:
        return tl.inline_asm_elementwise(
            """{
            .reg .b16 low, high;
            .reg .b32 a, b;
            .reg .f32 c, d;
            mov.b32 {low, high}, $1;
            cvt.rn.f16x2.e4m3x2 a, low;
            cvt.rn.f16x2.e4m3x2 b, high;
            mul.rn.f16x2 a, a, $2;
            fma.rn.f16x2 a, b, $3, a;
            mov.b32 {low, high}, a;
            cvt.f32.f16 c, low;
            cvt.f32.f16 d, high;
            add.f32 $0, c, d;
            }""",
            "=f,r,r,r",
            [word, first, second],
            dtype=tl.float32,
            is_pure=True,
            pack=1,
        )
    # Triton's interpreter knows no assembler: there both words are the token's own.
    total = _number(word, 0) * _number(first, 0) + _number(word, 2) * _number(second, 2)
    return (total + _number(word, 1) * _number(first, 1) + _number(word, 3) * _number(second, 3)) / 8


@triton.jit
def _words(weight, row, start, words, WORDS: tl.constexpr, ALL: tl.constexpr):
    """W's rows (numbers past the end have been clamped), WORDS words from `start` on."""
    column = start + tl.arange(0, WORDS)
    at = weight + row.to(tl.int64)[:, None] * words + column[None, :]
    return tl.load(
        at, None if ALL else (column < words)[None, :], None if ALL else 0, eviction_policy="evict_first"
    )


@triton.jit
def _matvec_fp8(
    q, scale, weight, weight_scale, bias, residual, y, outputs, words, ACT: tl.constexpr, ROWS: tl.constexpr,
    WORDS: tl.constexpr, EVEN: tl.constexpr, ON_DEVICE: tl.constexpr,
):  # fmt: skip
    # With an activation a program has ROWS rows of the gate and, behind them, the same rows of the other half.
    ALL_ROWS: tl.constexpr = ROWS if ACT is None else 2 * ROWS
    member = tl.arange(0, ALL_ROWS)
    place = tl.program_id(0) * ROWS + member % ROWS
    row = tl.minimum(place, outputs - 1) + member // ROWS * outputs
    # Weights do not depend on the kernel in front: the first are on their way while it finishes.
    w = _words(weight, row, 0, words, WORDS, EVEN)
    wait_for_front(ON_DEVICE)
    launch_dependents(ON_DEVICE)
    column = tl.arange(0, WORDS)
    acc = tl.zeros([ALL_ROWS, WORDS], tl.float32)
    for start in tl.range(0, words, WORDS):
        first, second = _pairs(tl.load(q + start + column, start + column < words, 0), ON_DEVICE)
        first = tl.broadcast_to(first[None, :], (ALL_ROWS, WORDS))
        second = tl.broadcast_to(second[None, :], (ALL_ROWS, WORDS))
        acc += _dot(w, first, second, ON_DEVICE)
        w = _words(weight, row, start + WORDS, words, WORDS, False)
    z = tl.sum(acc, 1) * (tl.load(weight_scale + row) * (8 * tl.load(scale)))
    if bias is not None:
        z += tl.load(bias + row).to(tl.float32)
    if ACT is not None:
        gate, z = tl.split(tl.trans(tl.reshape(z, (2, ROWS))))
        place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        if ACT == "silu":
            z *= gate * tl.sigmoid(gate)
        else:
            # (1 + tanh z) / 2 = sigmoid(2z)
            z *= gate * tl.sigmoid(1.5957691216057308 * (gate + 0.044715 * gate * gate * gate))
    there = place < outputs
    if residual is not None:
        z += tl.load(residual + place, there, 0).to(tl.float32)
    tl.store(y + place, z, there)
