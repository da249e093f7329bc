"""The gated MLP against its formula."""

from __future__ import annotations

import torch
from torch.nn import functional

from engine.layers.linear import Linear
from engine.layers.mlp import MLP
from engine.layers.norm import RMSNorm


def test_equals_its_formula() -> None:
    gate, up, down = torch.randn(40, 24), torch.randn(40, 24), torch.randn(24, 40)
    x, norm = torch.randn(7, 24), RMSNorm(torch.rand(24) + 0.5, 1e-5)
    for act, function in (
        ("silu", functional.silu),
        ("gelu_tanh", lambda v: functional.gelu(v, approximate="tanh")),
    ):
        mlp = MLP(Linear(torch.cat((gate, up))), Linear(down), act)  # type: ignore[arg-type]  # one of the two
        normed = norm(x)
        expected = (function(normed @ gate.T) * (normed @ up.T)) @ down.T
        assert torch.allclose(mlp(x, norm), expected, atol=1e-3)
        assert torch.allclose(mlp.add_to(x.clone(), norm), x + expected, atol=1e-3)
