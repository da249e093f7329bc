"""Linear against float64, in every layout it may choose."""

from __future__ import annotations

import pytest
import torch

from engine.layers import linear as linear_module
from engine.layers.linear import Linear


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2), (torch.float16, 3e-3)]
)
@pytest.mark.parametrize("rows", [0, 1, 2, 37, 130])
@pytest.mark.parametrize("biased", [True, False])
def test_equals_float64(
    packed: bool,
    dtype: torch.dtype,
    tolerance: float,
    rows: int,
    biased: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not packed:
        monkeypatch.setattr(linear_module, "_packed", lambda _: None)
    generator = torch.Generator().manual_seed(rows)
    weight = (torch.randn(51, 70, generator=generator) / 70**0.5).to(dtype)
    bias = torch.randn(51, generator=generator).to(dtype) if biased else None
    x = torch.randn(rows, 70, generator=generator).to(dtype)
    expected = x.double() @ weight.double().T + (bias.double() if bias is not None else 0.0)
    found = Linear(weight, bias)(x)
    assert found.dtype == dtype
    assert found.shape == (rows, 51)
    assert torch.allclose(found.double(), expected, atol=tolerance, rtol=tolerance)


def test_says_its_sizes() -> None:
    layer = Linear(torch.zeros(3, 5))
    assert (layer.in_features, layer.out_features) == (5, 3)


def test_fp32_is_packed_on_the_cpu() -> None:
    """The plain product is two to four times slower (the table in `linear`)."""
    packed = linear_module._packed(torch.randn(64, 64))
    assert packed is not None
    assert packed.is_mkldnn
