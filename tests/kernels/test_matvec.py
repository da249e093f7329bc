"""kernels.matvec against float64, for every combination of what may stand around the product."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from kernels.matvec import matvec_reference, matvec_triton
from tests.kernels import oracles

pytestmark = pytest.mark.usefixtures("seed")

Op = Callable[..., Tensor]


@pytest.fixture(params=["reference", "triton"])
def matvec(request: pytest.FixtureRequest) -> Op:
    return {"reference": matvec_reference, "triton": matvec_triton}[request.param]


def _expected(x: Tensor, weight: Tensor, bias: Tensor | None, norm: Tensor | None, act: str | None) -> Tensor:
    wide = x.double() if norm is None else oracles.rms_norm(x, norm, 1e-5)
    z = wide @ weight.double().T
    if bias is not None:
        z = z + bias.double()
    if act is None:
        return z
    gate, up = z.chunk(2, -1)
    return (functional.silu(gate) if act == "silu" else functional.gelu(gate, approximate="tanh")) * up


@pytest.mark.parametrize("dtype", oracles.DTYPES)
@pytest.mark.parametrize("act", [None, "silu", "gelu_tanh"])
@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("shape", [(52, 97), (20, 4200)])
def test_matches_formula(
    matvec: Op, shape: tuple[int, int], normed: bool, act: str | None, dtype: torch.dtype
) -> None:
    rows, columns = shape
    x, weight = torch.randn(1, columns).to(dtype), (torch.randn(rows, columns) / columns**0.5).to(dtype)
    norm = torch.rand(columns) + 0.5 if normed else None
    expected = _expected(x, weight, None, norm, act)
    y = matvec(x, weight, norm=norm, eps=1e-5, act=act)
    assert y.dtype == dtype
    oracles.assert_close(y, expected)


def test_bias_and_residual(matvec: Op) -> None:
    x, weight, bias, residual = torch.randn(1, 33), torch.randn(20, 33), torch.randn(20), torch.randn(1, 20)
    y = matvec(x, weight, bias=bias, residual=residual)
    oracles.assert_close(y, _expected(x, weight, bias, None, None) + residual.double())


def test_gated_bias(matvec: Op) -> None:
    x, weight, bias = torch.randn(1, 33), torch.randn(20, 33) / 6, torch.randn(20)
    oracles.assert_close(matvec(x, weight, bias=bias, act="silu"), _expected(x, weight, bias, None, "silu"))
