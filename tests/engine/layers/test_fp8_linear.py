"""Fp8Linear on the CPU: the product of what the rows and the weights become in e4m3."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from engine.layers.fp8_linear import Fp8Linear
from engine.layers.mlp import MLP
from engine.layers.norm import RMSNorm
from kernels.quantize import quantize_rows


def _as_fp8(x: Tensor) -> Tensor:
    q, scale = quantize_rows(x)
    return q.double() * scale.double()


def _layer(weight: Tensor, bias: Tensor | None = None) -> Fp8Linear:
    q, scale = quantize_rows(weight)
    return Fp8Linear(q, scale.view(-1), torch.float32, bias)


@pytest.mark.parametrize("rows", [0, 1, 37])
def test_both_sides_are_rounded(rows: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    weight, bias = torch.randn(51, 70, generator=generator), torch.randn(51, generator=generator)
    x = torch.randn(rows, 70, generator=generator)
    layer = _layer(weight, bias)
    expected = _as_fp8(x) @ _as_fp8(weight).T + bias.double()
    assert torch.allclose(layer(x).double(), expected, atol=1e-4)
    stream = torch.randn(rows, 51, generator=generator)
    assert torch.allclose(layer.add_to(stream.clone(), x).double(), stream.double() + expected, atol=1e-4)
    assert (layer.in_features, layer.out_features) == (70, 51)


def test_norm_and_activation_stand_in_front() -> None:
    generator = torch.Generator().manual_seed(3)
    gate_up, down = torch.randn(80, 24, generator=generator), torch.randn(24, 40, generator=generator)
    x, norm = (
        torch.randn(5, 24, generator=generator),
        RMSNorm(torch.rand(24, generator=generator) + 0.5, 1e-5),
    )
    mlp = MLP(_layer(gate_up), _layer(down), "silu")
    gate, up = (_as_fp8(norm(x)) @ _as_fp8(gate_up).T).chunk(2, -1)
    expected = _as_fp8(functional.silu(gate) * up) @ _as_fp8(down).T
    # A value on the edge between two numbers of e4m3 may fall to either side.
    assert torch.allclose(mlp(x, norm).double(), expected, atol=0.02 * expected.abs().max().item())
    assert torch.allclose(mlp.add_to(x.clone(), norm), x + mlp(x, norm))
