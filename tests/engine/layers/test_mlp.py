"""The gated MLP against its formula."""

from __future__ import annotations

import torch
from torch.nn import functional

from engine.layers.linear import Linear
from engine.layers.mlp import MLP


def test_equals_its_formula() -> None:
    gate, up, down = torch.randn(40, 24), torch.randn(40, 24), torch.randn(24, 40)
    x = torch.randn(7, 24)
    for act, function in (
        ("silu", functional.silu),
        ("gelu_tanh", lambda v: functional.gelu(v, approximate="tanh")),
    ):
        mlp = MLP(Linear(torch.cat((gate, up))), Linear(down), act)  # type: ignore[arg-type]  # one of the two
        expected = (function(x @ gate.T) * (x @ up.T)) @ down.T
        assert torch.allclose(mlp(x), expected, atol=1e-3)
