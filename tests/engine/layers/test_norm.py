"""RMSNorm with and without a residual."""

from __future__ import annotations

import torch

from engine.layers.norm import RMSNorm


def test_normalises_and_adds_first() -> None:
    weight, x, residual = torch.rand(24) + 0.5, torch.randn(5, 24), torch.randn(5, 24)
    norm = RMSNorm(weight, 1e-5)

    def expected(h: torch.Tensor) -> torch.Tensor:
        return h / (h.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight

    assert torch.allclose(norm(x), expected(x), atol=1e-5)
    normed, total = norm.add(x, residual)
    assert torch.allclose(total, x + residual)
    assert torch.allclose(normed, expected(x + residual), atol=1e-5)
