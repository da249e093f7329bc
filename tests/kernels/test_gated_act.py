"""kernels.gated_act against its float64 formula."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kernels import reference
from kernels.gated_act import gated_act_triton
from tests.kernels import oracles

pytestmark = pytest.mark.usefixtures("seed")


def _silu(x: Tensor) -> Tensor:
    return x / (1 + torch.exp(-x))


def _gelu_tanh(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@pytest.fixture(params=["reference", "triton"])
def gated_act(request: pytest.FixtureRequest) -> Callable[[Tensor, str], Tensor]:
    return {"reference": reference.gated_act, "triton": gated_act_triton}[request.param]


@pytest.mark.parametrize("dtype", oracles.DTYPES)
@pytest.mark.parametrize("kind", ["silu", "gelu_tanh"])
def test_matches_formula(gated_act: Callable[[Tensor, str], Tensor], kind: str, dtype: torch.dtype) -> None:
    x = torch.randn(7, 2 * 53).to(dtype)
    expected = {"silu": _silu, "gelu_tanh": _gelu_tanh}[kind](x[:, :53].double()) * x[:, 53:].double()
    out = gated_act(x, kind)
    assert out.dtype == dtype
    oracles.assert_close(out, expected)
