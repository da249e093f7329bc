"""kernels.attention_tile: 16-bit pairs of e4m3 numbers are taken apart without loss. The rest: test_paged_attention."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.attention_tile import halves
from kernels.e4m3 import E4M3


@triton.jit
def _take_apart(pairs, even, odd, COUNT: tl.constexpr):
    index = tl.arange(0, COUNT)
    low, high = halves(tl.load(pairs + index), tl.float16)
    tl.store(even + index, low)
    tl.store(odd + index, high)


def test_every_number_in_either_place() -> None:
    numbers = torch.arange(256).to(torch.uint8)
    numbers = numbers[numbers.view(E4M3).float().isfinite()]
    mixed = torch.stack((numbers, numbers.flip(0)), 1)
    padded = torch.cat((mixed, mixed.new_zeros(256 - len(mixed), 2)))
    even, odd = torch.empty(256, dtype=torch.float16), torch.empty(256, dtype=torch.float16)
    _take_apart[(1,)](padded.view(torch.int16), even, odd, COUNT=256)
    assert torch.equal(even.float(), padded[:, 0].contiguous().view(E4M3).float())
    assert torch.equal(odd.float(), padded[:, 1].contiguous().view(E4M3).float())
