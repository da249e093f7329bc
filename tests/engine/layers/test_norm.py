"""RMSNorm against its formula."""

from __future__ import annotations

import torch

from engine.layers.norm import RMSNorm


def test_normalises_over_the_last_dimension() -> None:
    weight, x = torch.rand(24) + 0.5, torch.randn(5, 3, 24)
    expected = x / (x.square().mean(-1, keepdim=True) + 1e-2).sqrt() * weight
    assert torch.allclose(RMSNorm(weight, 1e-2)(x), expected, atol=1e-5)
