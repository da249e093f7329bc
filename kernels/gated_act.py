"""The gated activation of an MLP: y = act(gate) · up, act = SiLU or tanh-GELU.

Place in the path: layers → here. CPU tensors go to `kernels/reference.py`, CUDA tensors to Triton. Knows no
model. Bytes: 6·T·F in bf16. Measured (H200, F = 14,336, bf16): 4,096 rows 86 µs = 91 % of the read bandwidth;
1 row 1.8 µs.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels import reference

__all__ = ["gated_act", "gated_act_triton"]

_BLOCK = 1024


def gated_act(x: Tensor, kind: str) -> Tensor:
    """[T, F] from x [T, 2F] = gate | up, as `kernels.reference.gated_act` defines it."""
    return gated_act_triton(x, kind) if x.is_cuda else reference.gated_act(x, kind)


def gated_act_triton(x: Tensor, kind: str) -> Tensor:
    """The Triton path; rows of x may have any stride."""
    assert kind in ("silu", "gelu_tanh"), kind
    width = x.shape[1] // 2
    y = torch.empty(x.shape[0], width, dtype=x.dtype, device=x.device)
    block = min(_BLOCK, triton.next_power_of_2(width))
    grid = (x.shape[0], triton.cdiv(width, block))
    _gated_act[grid](x, y, x.stride(0), width, SILU=kind == "silu", BLOCK=block, num_warps=4)
    return y


@triton.jit
def _gated_act(x, y, x_stride, width, SILU: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = col < width
    gate = tl.load(x + row * x_stride + col, there, 0).to(tl.float32)
    up = tl.load(x + row * x_stride + width + col, there, 0).to(tl.float32)
    if SILU:
        act = gate * tl.sigmoid(gate)
    else:
        # (1 + tanh z) / 2 = sigmoid(2z)
        act = gate * tl.sigmoid(1.5957691216057308 * (gate + 0.044715 * gate * gate * gate))
    tl.store(y + row * width + col, act * up, there)
