"""kernels.matmul_fp8 against float64 over the same fp8 numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kernels.e4m3 import E4M3, to_e4m3
from kernels.matmul_fp8 import Launch, choose_launch, matmul_fp8_reference, matmul_fp8_triton
from tests.kernels import oracles

pytestmark = pytest.mark.usefixtures("seed")


# On a Hopper card a tensor core keeps about 14 bits of a running sum of fp8 products: there sums are allowed 2⁻⁸ a step.


def _split(
    q: Tensor, scale: Tensor, weight: Tensor, weight_scale: Tensor, dtype: torch.dtype, **added: Tensor
) -> Tensor:
    """Columns split in three."""
    arrived = torch.zeros(64, dtype=torch.int32)
    launch = Launch(16, 32, 64, splits=3)
    y = matmul_fp8_triton(q, scale, weight, weight_scale, dtype, launch, arrived=arrived, **added)
    assert not arrived.any()
    return y


def _chosen(
    q: Tensor, scale: Tensor, weight: Tensor, weight_scale: Tensor, dtype: torch.dtype, **added: Tensor
) -> Tensor:
    launch = choose_launch(q.shape[0], *weight.shape, may_split=False)
    assert launch is not None
    return matmul_fp8_triton(q, scale, weight, weight_scale, dtype, launch, **added)


@pytest.mark.parametrize("op", [matmul_fp8_reference, _chosen, _split])
@pytest.mark.parametrize("tokens", [2, 33, 70])
@pytest.mark.parametrize("shape", [(52, 100), (144, 512)])
@pytest.mark.parametrize("extras", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_matches_formula(
    op: Callable[..., Tensor], tokens: int, shape: tuple[int, int], extras: bool, dtype: torch.dtype
) -> None:
    outputs, columns = shape
    q, weight = to_e4m3(torch.randn(tokens, columns) * 20), to_e4m3(torch.randn(outputs, columns) * 20)
    assert q.dtype == weight.dtype == E4M3
    scale, weight_scale = torch.rand(tokens, 1) / 100, torch.rand(outputs) / 100 / columns**0.5
    added = {}
    expected = (q.double() * scale.double()) @ (weight.double() * weight_scale.double()[:, None]).T
    if extras:
        added = {"bias": torch.randn(outputs).to(dtype), "residual": torch.randn(tokens, outputs).to(dtype)}
        expected = expected + added["bias"].double() + added["residual"].double()
    y = op(q, scale, weight, weight_scale, dtype, **added)
    assert y.dtype == dtype
    oracles.assert_close(
        y, expected, oracles.fp8_slack(q, scale, weight, weight_scale, 2**-8 if q.is_cuda else 0)
    )


def test_one_launch_for_all_sizes_gives_the_same_bits() -> None:
    """Whatever is beside a token; on a GPU at any place of a tile."""
    q, weight = to_e4m3(torch.randn(75, 200) * 20), to_e4m3(torch.randn(52, 200) * 20)
    scale, weight_scale = torch.rand(75, 1) / 100, torch.rand(52) / 1400

    def product(some: slice) -> Tensor:
        return matmul_fp8_triton(
            q[some], scale[some], weight, weight_scale, torch.float32, Launch(32, 64, 256)
        )

    together = product(slice(0, 75))
    places = (0, 31, 40) if q.is_cuda else (0, 32, 64)
    for some in (slice(first, first + count) for first in places for count in (1, 11)):
        assert torch.equal(product(some), together[some])


def test_the_library_multiplies_what_it_does_best() -> None:
    """Rows of many tokens, and many rows of the weight."""
    for tokens, outputs, columns in (
        (257, 4096, 4096),
        (512, 4096, 14336),
        (65, 28672, 4096),
        (129, 6144, 4096),
    ):
        assert choose_launch(tokens, outputs, columns, may_split=True) is None
    for tokens in (2, 64, 65, 128, 129, 256):
        assert choose_launch(tokens, 4096, 14336, may_split=True) is not None
