"""kernels.small_matmul against float64, for every combination of what may stand around the product."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from kernels.e4m3 import to_e4m3
from kernels.small_matmul import Tile, small_matmul_reference, small_matmul_triton
from tests.kernels import oracles

pytestmark = pytest.mark.usefixtures("seed")

WHOLE, SPLIT, WIDE_SPLIT = Tile(16, 32), Tile(16, 32, splits=3), Tile(32, 16, splits=4)


def _triton(tile: Tile) -> Callable[..., Tensor]:
    def run(x: Tensor, weight: Tensor, **around: Tensor | str | None) -> Tensor:
        if x.dtype == torch.bfloat16 and not x.is_cuda:
            # Triton's interpreter multiplies bf16 tiles as if they were integers: it gets the same values as fp32.
            wide = {name: v.float() if isinstance(v, Tensor) else v for name, v in around.items()}
            return run(x.float(), weight.float(), **wide).to(x.dtype)
        arrived = torch.zeros(-(-weight.shape[0] // tile.rows), dtype=torch.int32)
        for _ in range(2):  # twice, to see that the counters are left clean
            y = small_matmul_triton(x, weight, tile, arrived=arrived, **around)  # type: ignore[arg-type]  # by name
        assert not arrived.any()
        return y

    return run


OPS = {
    "reference": small_matmul_reference,
    "whole": _triton(WHOLE),
    "split": _triton(SPLIT),
    "wide": _triton(WIDE_SPLIT),
}


def _expected(x: Tensor, weight: Tensor, act: str | None, **added: Tensor) -> Tensor:
    z = x.double() @ weight.double().T
    if "scale" in added:
        z = z * added["scale"].double()
    if "bias" in added:
        z = z + added["bias"].double()
    if act is not None:
        gate, up = z.chunk(2, -1)
        z = (functional.silu(gate) if act == "silu" else functional.gelu(gate, approximate="tanh")) * up
    return z + added["residual"].double() if "residual" in added else z


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", oracles.DTYPES)
@pytest.mark.parametrize("tokens", [1, 2, 9, 33, 64])
@pytest.mark.parametrize("shape", [(52, 97), (144, 512)])
def test_matches_formula(op: str, dtype: torch.dtype, tokens: int, shape: tuple[int, int]) -> None:
    rows, columns = shape
    x, weight = torch.randn(tokens, columns).to(dtype), (torch.randn(rows, columns) / columns**0.5).to(dtype)
    added = {"bias": torch.randn(rows).to(dtype), "residual": torch.randn(tokens, rows).to(dtype)}
    y = OPS[op](x, weight, **added)
    assert y.dtype == dtype
    oracles.assert_close(y, _expected(x, weight, None, **added))


@pytest.mark.parametrize("op", ["reference", "whole"])
@pytest.mark.parametrize("act", ["silu", "gelu_tanh"])
@pytest.mark.parametrize("columns", [97, 128])
def test_gated(op: str, act: str, columns: int) -> None:
    x, weight = torch.randn(5, columns), torch.randn(2 * 37, columns) / columns**0.5
    added = {"bias": torch.randn(2 * 37), "scale": torch.rand(2 * 37) + 0.5}
    oracles.assert_close(OPS[op](x, weight, act=act, **added), _expected(x, weight, act, **added))


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("columns", [100, 192])
def test_weight_narrower_than_the_input(op: str, columns: int) -> None:
    x, weight = torch.randn(6, columns), to_e4m3(torch.randn(44, columns) * 30)
    added = {"scale": torch.rand(44) / 30 / columns**0.5, "residual": torch.randn(6, 44)}
    oracles.assert_close(OPS[op](x, weight, **added), _expected(x, weight, None, **added))


def test_parts_are_added_in_their_order() -> None:
    """Bitwise the same however the work is timed, and so however many tokens are beside a row."""
    x, weight = torch.randn(8, 384), torch.randn(48, 384)
    together = OPS["split"](x, weight)
    assert torch.equal(together, OPS["split"](x, weight))
    assert torch.equal(together[:3], OPS["split"](x[:3].contiguous(), weight))


@pytest.mark.parametrize("columns", [97, 384])
def test_tokens_of_any_number_in_tiles_of_one_size(columns: int) -> None:
    """Bitwise the same alone and beside others; on a GPU at any place of a tile. The interpreter's library adds up the
    columns of one tile in several ways."""
    x, weight = torch.randn(83, columns), torch.randn(52, columns) / columns**0.5
    added = {"bias": torch.randn(52), "residual": torch.randn(83, 52)}

    def product(first: int, count: int) -> Tensor:
        some = slice(first, first + count)
        residual = added["residual"][some].contiguous()
        return small_matmul_triton(
            x[some].contiguous(), weight, WHOLE, bias=added["bias"], residual=residual, block_tokens=32
        )

    together = product(0, 83)
    oracles.assert_close(together, _expected(x, weight, None, **added))
    for first, count in ((0, 1), (32, 5), (64, 19), (0, 40), *(((82, 1), (31, 2)) if x.is_cuda else ())):
        assert torch.equal(product(first, count), together[first : first + count])
