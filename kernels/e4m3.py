"""The 8-bit float of weights, activations and the KV cache: what it can hold, and how numbers become it.

Place in the path: the fp8 kernels and the layers that keep fp8 tensors → here. e4m3 has a sign, 4 bits of exponent and
3 of fraction: 1.0, 1.125, … 448, down to 2⁻⁶ at the same relative step and to 2⁻⁹ at a fixed one. It has no infinity;
what lies above 448 would be a NaN, so both conversions here clamp. Knows no scales.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["E4M3", "E4M3_MAX", "to_e4m3", "to_e4m3_triton"]

E4M3 = torch.float8_e4m3fn
E4M3_MAX = 448.0


def to_e4m3(x: Tensor) -> Tensor:
    """Nearest, ties to even; clamped to ± 448. A NaN stays one (in Triton's interpreter not)."""
    return x.clamp(-E4M3_MAX, E4M3_MAX).to(E4M3)


@triton.jit
def to_e4m3_triton(x):
    """The same for fp32 in a kernel."""
    # Rounded by hand, in four instructions, so that the last conversion is exact: Triton's interpreter drops the carry
    # into the exponent when it rounds. 1.5 · 2^(e + 20) has its last bit where e4m3 has it for numbers of exponent e.
    exponent = tl.maximum((x.to(tl.int32, bitcast=True) >> 23) & 0xFF, 121)
    magic = (((exponent + 20) << 23) | 0x400000).to(tl.float32, bitcast=True)
    clamped = tl.clamp((x + magic) - magic, -448.0, 448.0, propagate_nan=tl.PropagateNan.ALL)
    return clamped.to(tl.float8e4nv)
