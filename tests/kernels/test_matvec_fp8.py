"""kernels.matvec_fp8 against float64 over the same fp8 numbers, for what may stand around the product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from kernels.e4m3 import to_e4m3
from kernels.matvec_fp8 import matvec_fp8_reference, matvec_fp8_triton
from kernels.quantize import quantize_rows
from kernels.small_matmul import Tile
from tests.kernels import oracles

pytestmark = pytest.mark.usefixtures("seed")

Op = Callable[..., Tensor]


def _split(*args: Any, **kwargs: Any) -> Tensor:
    arrived = torch.zeros(64, dtype=torch.int32)
    y = matvec_fp8_triton(*args, **kwargs, tile=Tile(16, 64, splits=3), arrived=arrived)
    assert not arrived.any()
    return y


@pytest.fixture(params=["reference", "triton"])
def matvec(request: pytest.FixtureRequest) -> Op:
    return {"reference": matvec_fp8_reference, "triton": matvec_fp8_triton}[request.param]


def _weight(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    return to_e4m3(torch.randn(rows, columns) * 30), (torch.rand(rows) + 0.5) / 30 / columns**0.5


def _product(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    q, x_scale = quantize_rows(x.float())
    return (q.double() * x_scale.double()) @ (weight.double() * scale.double()[:, None]).T


def _assert_close(found: Tensor, expected: Tensor, x: Tensor) -> None:
    """A number of x that lies between two of e4m3 may go either way: 2⁻⁴ of one product in a sum of many."""
    absolute, relative = oracles.TOLERANCE[x.dtype]
    slack = 2**-4 / x.shape[1] ** 0.5
    assert torch.allclose(found.double(), expected, atol=absolute + slack, rtol=relative)


@pytest.mark.parametrize("op", [matvec_fp8_reference, matvec_fp8_triton, _split])
@pytest.mark.parametrize("dtype", oracles.DTYPES)
@pytest.mark.parametrize("shape", [(52, 97), (144, 2048)])
def test_bias_and_residual(op: Op, shape: tuple[int, int], dtype: torch.dtype) -> None:
    x, (weight, scale) = torch.randn(1, shape[1]).to(dtype), _weight(*shape)
    bias, residual = torch.randn(shape[0]).to(dtype), torch.randn(1, shape[0]).to(dtype)
    y = op(x, weight, scale, bias=bias, residual=residual)
    assert y.dtype == dtype
    _assert_close(y, _product(x, weight, scale) + bias.double() + residual.double(), x)


@pytest.mark.parametrize("act", [None, "silu", "gelu_tanh"])
def test_norm_and_activation(matvec: Op, act: str | None) -> None:
    x, norm, (weight, scale) = torch.randn(1, 300), torch.rand(300) + 0.5, _weight(104, 300)
    bias = torch.randn(104)
    expected = _product(oracles.rms_norm(x, norm, 1e-5).float(), weight, scale) + bias.double()
    if act is not None:
        gate, up = expected.chunk(2, -1)
        shaped = functional.silu(gate) if act == "silu" else functional.gelu(gate, approximate="tanh")
        expected = shaped * up
    _assert_close(matvec(x, weight, scale, bias=bias, norm=norm, eps=1e-5, act=act), expected, x)
