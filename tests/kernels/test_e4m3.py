"""kernels.e4m3: both conversions give the nearest number of the format."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.e4m3 import E4M3, E4M3_MAX, to_e4m3, to_e4m3_triton

pytestmark = pytest.mark.usefixtures("seed")


@triton.jit
def _convert(x, y, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + index, to_e4m3_triton(tl.load(x + index, index < count, 0)), index < count)


def _by_kernel(x: Tensor) -> Tensor:
    y = torch.zeros_like(x, dtype=E4M3)
    _convert[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


@pytest.fixture(params=[to_e4m3, _by_kernel])
def convert(request: pytest.FixtureRequest) -> Callable[[Tensor], Tensor]:
    chosen: Callable[[Tensor], Tensor] = request.param
    return chosen


def _numbers() -> Tensor:
    """Every finite number of the format, in order."""
    every = torch.arange(256).to(torch.uint8).view(E4M3).double()
    return every[every.isfinite()].unique()


def test_numbers_of_the_format_stay(convert: Callable[[Tensor], Tensor]) -> None:
    numbers = _numbers()
    assert numbers.max() == E4M3_MAX
    assert torch.equal(convert(numbers.float()).double(), numbers)


def test_nearest_of_all(convert: Callable[[Tensor], Tensor]) -> None:
    """A number halfway between two goes to the one whose last bit is 0, one above all to the largest."""
    numbers = _numbers()
    halfway = (numbers[1:] + numbers[:-1]) / 2
    drawn = torch.randn(3001, dtype=torch.float64) * 10 ** (torch.rand(3001, dtype=torch.float64) * 7 - 4)
    x = torch.cat((halfway, drawn)).float()
    found = convert(x)
    distance = (x.double()[:, None] - numbers[None]).abs().amin(1)
    assert torch.equal((found.double() - x.double()).abs(), distance)
    assert not (found[: halfway.numel()].view(torch.uint8) & 1).any()
