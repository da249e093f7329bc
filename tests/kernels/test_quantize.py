"""kernels.quantize against float64: the scale is the row's largest over 448, the values within half a step of e4m3."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from kernels import quantize
from kernels.e4m3 import E4M3, E4M3_MAX
from tests.kernels import oracles

pytestmark = pytest.mark.usefixtures("seed")

Op = Callable[..., tuple[Tensor, Tensor]]


@pytest.fixture(params=["", "_triton"])
def path(request: pytest.FixtureRequest) -> str:
    suffix: str = request.param
    return suffix


def _op(name: str, path: str) -> Op:
    op: Op = getattr(quantize, name + path)
    return op


def _check(found: tuple[Tensor, Tensor], expected: Tensor) -> None:
    q, scale = found
    assert (q.dtype, scale.dtype) == (E4M3, torch.float32)
    assert scale.shape == (expected.shape[0], 1)
    largest = expected.abs().amax(1, keepdim=True)
    torch.testing.assert_close(scale.double(), largest.clamp_min(1e-12) / E4M3_MAX, rtol=1e-5, atol=0)
    error = (q.double() * scale.double() - expected).abs()
    # Half a step: 2⁻⁴ of the value, or 2⁻¹⁰ below the smallest normal number, and what fp32 adds.
    assert (error <= expected.abs() * (2**-4 + 1e-5) + scale.double() * 2**-10 + 1e-6).all()


@pytest.mark.parametrize("dtype", oracles.DTYPES)
@pytest.mark.parametrize("width", [97, 2080])
def test_rows(path: str, dtype: torch.dtype, width: int) -> None:
    x = (torch.randn(7, width + 3) * torch.tensor([1e-3, 1, 50, 0, 1, 1, 1e3])[:, None]).to(dtype)[:, :width]
    _check(_op("quantize_rows", path)(x), x.double())


@pytest.mark.parametrize("dtype", oracles.DTYPES)
def test_norm(path: str, dtype: torch.dtype) -> None:
    x, weight = torch.randn(5, 190).to(dtype), torch.rand(190) + 0.5
    _check(_op("rms_norm_fp8", path)(x, weight, 1e-5), oracles.rms_norm(x, weight, 1e-5))


@pytest.mark.parametrize("dtype", oracles.DTYPES)
@pytest.mark.parametrize("kind", ["silu", "gelu_tanh"])
def test_gated(path: str, dtype: torch.dtype, kind: str) -> None:
    x = torch.randn(5, 2 * 53).to(dtype)
    gate, up = x.double().chunk(2, -1)
    act = functional.silu(gate) if kind == "silu" else functional.gelu(gate, approximate="tanh")
    _check(_op("gated_act_fp8", path)(x, kind), act * up)


def test_a_nan_stays_in_its_row() -> None:
    x = torch.ones(2, 40)
    x[1, 7] = float("nan")
    q, scale = quantize.quantize_rows(x)
    assert (q.float() * scale)[0].eq(1).all()
    assert (q.float() * scale)[1, 7].isnan()
