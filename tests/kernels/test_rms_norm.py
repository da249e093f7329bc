"""kernels.rms_norm against its float64 formula."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kernels import reference
from kernels.rms_norm import rms_norm_triton
from tests.kernels import oracles

pytestmark = pytest.mark.usefixtures("seed")

Op = Callable[..., tuple[Tensor, Tensor]]


@pytest.fixture(params=["reference", "triton"])
def rms_norm(request: pytest.FixtureRequest) -> Op:
    return {"reference": reference.rms_norm, "triton": rms_norm_triton}[request.param]


@pytest.mark.parametrize("dtype", oracles.DTYPES)
@pytest.mark.parametrize("shape", [(1, 640), (7, 97), (3, 5, 128)])
def test_matches_formula(rms_norm: Op, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, weight = torch.randn(shape).to(dtype), torch.randn(shape[-1])
    y, h = rms_norm(x, weight, 1e-5)
    assert y.dtype == dtype
    assert torch.equal(h, x)
    oracles.assert_close(y, oracles.rms_norm(x, weight, 1e-5))


@pytest.mark.parametrize("dtype", oracles.DTYPES)
def test_adds_the_residual_first(rms_norm: Op, dtype: torch.dtype) -> None:
    x, residual, weight = torch.randn(7, 97).to(dtype), torch.randn(7, 97).to(dtype), torch.randn(97)
    y, h = rms_norm(x, weight, 1e-6, residual)
    oracles.assert_close(h, x.double() + residual.double())
    oracles.assert_close(y, oracles.rms_norm(h, weight, 1e-6))


def test_eps_keeps_a_zero_row_finite_and_counts(rms_norm: Op) -> None:
    x, weight = torch.zeros(2, 31), torch.ones(31)
    x[1] = 1e-3
    y, _ = rms_norm(x, weight, 1e-2)
    assert torch.equal(y[0], torch.zeros(31))
    oracles.assert_close(y, oracles.rms_norm(x, weight, 1e-2))
