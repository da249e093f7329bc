"""Each row of a product as if it were alone, on this processor."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.layers.embedding import CompactHead, DenseHead, DenseRows, Head
from engine.layers.invariant import TILE, InvariantHead, InvariantLinear
from engine.layers.linear import Linear
from engine.layers.norm import RMSNorm

SHAPES = [(96, 64), (640, 2048), (513, 77), (1536, 640), (2048, 5632)]


def _rows(width: int, count: int = 21, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(width)).to(dtype)


def _linear(kind: type[Linear], rows: int, columns: int, dtype: torch.dtype = torch.float32) -> Linear:
    draw = torch.Generator().manual_seed(rows)
    weight, bias = torch.randn(rows, columns, generator=draw), torch.randn(rows, generator=draw)
    return kind((weight * columns**-0.5).to(dtype), bias.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_does_not_depend_on_how_many_there_are(shape: tuple[int, int], dtype: torch.dtype) -> None:
    linear = _linear(InvariantLinear, *shape, dtype)
    x = _rows(shape[1], dtype=dtype)
    together = linear(x)
    for row in range(x.shape[0]):
        assert torch.equal(linear(x[row : row + 1])[0], together[row])
    for count in (2, TILE, TILE + 3):
        assert torch.equal(linear(x[5 : 5 + count]), together[5 : 5 + count])


def test_it_is_the_same_product() -> None:
    x, stream = _rows(64), _rows(96)
    norm = RMSNorm(torch.rand(64) + 0.5, 1e-5)
    one, other = _linear(InvariantLinear, 96, 64), _linear(Linear, 96, 64)
    assert torch.allclose(one(x), other(x), atol=1e-5)
    assert torch.allclose(one(x, norm), other(x, norm), atol=1e-5)
    assert torch.allclose(one.gated(x, norm, "silu"), other.gated(x, norm, "silu"), atol=1e-5)
    assert torch.allclose(one.add_to(stream.clone(), x), other.add_to(stream.clone(), x), atol=1e-5)


@pytest.mark.parametrize("kind", ["dense", "int8"])
def test_heads(kind: str) -> None:
    weight = torch.randn(4096, 2048, generator=torch.Generator().manual_seed(1)) * 0.02
    inner: Head = (
        DenseHead(Linear(weight)) if kind == "dense" else CompactHead(DenseRows(weight), bfloat16=False)
    )
    head, hidden = InvariantHead(inner, 4096), _rows(2048)
    together = head(hidden)
    assert torch.allclose(together, inner(hidden), atol=1e-4 if kind == "dense" else 0.05)
    for row in range(hidden.shape[0]):
        assert torch.equal(head(hidden[row : row + 1])[0], together[row])
    assert torch.equal(head(hidden[5 : 5 + TILE]), together[5 : 5 + TILE])
