"""kernels.matvec_fp8 against float64 over the same fp8 numbers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from kernels.e4m3 import to_e4m3
from kernels.matvec_fp8 import Strip, matvec_fp8_triton
from tests.kernels import oracles

pytestmark = pytest.mark.usefixtures("seed")


def _gated(z: Tensor, act: str) -> Tensor:
    gate, up = z.chunk(2, -1)
    return (functional.silu(gate) if act == "silu" else functional.gelu(gate, approximate="tanh")) * up


def _case(rows: int, columns: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q, its scale, the weight, its scales; products of order one."""
    q, weight = to_e4m3(torch.randn(1, columns) * 100), to_e4m3(torch.randn(rows, columns) * 100)
    return q, torch.rand(1, 1) / 100, weight, torch.rand(rows) / 100 / columns**0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("act", [None, "silu", "gelu_tanh"])
@pytest.mark.parametrize(
    ("shape", "strip"), [((52, 100), None), ((52, 100), Strip(4, 16, 2)), ((6, 14336), None)]
)
def test_matches_formula(
    shape: tuple[int, int], act: str | None, dtype: torch.dtype, strip: Strip | None
) -> None:
    q, scale, weight, weight_scale = _case(*shape)
    z = (q.double() * scale.double()) @ (weight.double() * weight_scale.double()[:, None]).T
    y = matvec_fp8_triton(q, scale, weight, weight_scale, dtype, act=act, strip=strip)
    assert y.dtype == dtype
    expected = z if act is None else _gated(z, act)
    # Two neighbouring products are added in fp16: 2⁻¹¹ of what they may be, over as many random signs as there are pairs.
    slack = oracles.fp8_slack(q, scale, weight, weight_scale, 2**-11)
    oracles.assert_close(y, expected, slack if act is None else slack.max() * z.abs().max().clamp_min(1))


@pytest.mark.parametrize("act", [None, "silu"])
def test_bias_and_residual(act: str | None) -> None:
    q, scale, weight, weight_scale = _case(52, 200)
    z = (q.double() * scale.double()) @ (weight.double() * weight_scale.double()[:, None]).T
    bias = torch.randn(52)
    expected = z + bias.double() if act is None else _gated(z + bias.double(), act)
    residual = torch.randn(*expected.shape)
    y = matvec_fp8_triton(
        q, scale, weight, weight_scale, torch.float32, bias=bias, act=act, residual=residual
    )
    oracles.assert_close(
        y, expected + residual.double(), oracles.fp8_slack(q, scale, weight, weight_scale, 2**-11).max() * 4
    )


def test_the_largest_numbers_do_not_overflow() -> None:
    """448 · 448 is more than fp16 holds."""
    q, weight = to_e4m3(torch.full((1, 64), 448.0)), to_e4m3(torch.full((4, 64), -448.0))
    y = matvec_fp8_triton(q, torch.ones(1, 1), weight, torch.ones(4), torch.float32)
    assert torch.equal(y, torch.full((1, 4), -64.0 * 448 * 448))


def test_the_smallest_numbers_are_not_lost() -> None:
    q, weight = to_e4m3(torch.full((1, 64), 2.0**-9)), to_e4m3(torch.full((4, 64), 2.0**-9))
    y = matvec_fp8_triton(q, torch.ones(1, 1), weight, torch.ones(4), torch.float32)
    assert torch.equal(y, torch.full((1, 4), 64 * 2.0**-18))
