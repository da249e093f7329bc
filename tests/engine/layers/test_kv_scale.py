"""kv_scale: the worst possible input just fits, whatever the layer has."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.layers.kv_scale import kv_scale
from engine.layers.norm import RMSNorm
from kernels import reference
from kernels.e4m3 import E4M3_MAX

HEADS, DIM, HIDDEN = 2, 8, 40


def _worst_inputs(weight: Tensor, norm: Tensor) -> Tensor:
    """Along every row of the weight, both ways: no input of its length gives a larger product."""
    return torch.cat((weight * norm, -weight * norm))


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("normed", [False, True])
def test_no_key_and_no_value_is_above_448_scales(biased: bool, normed: bool) -> None:
    generator = torch.Generator().manual_seed(2 * biased + normed)
    k_weight, v_weight = (torch.randn(HEADS * DIM, HIDDEN, generator=generator) * 3 for _ in range(2))
    norm = torch.rand(HIDDEN, generator=generator) + 0.5
    k_bias, v_bias = (torch.randn(HEADS * DIM, generator=generator) if biased else None for _ in range(2))
    k_norm = torch.rand(DIM, generator=generator) + 0.5 if normed else None
    scale = kv_scale(k_weight, v_weight, norm, k_bias, v_bias, k_norm, DIM)
    assert scale.shape == (2, HEADS)

    x = RMSNorm(norm, 0.0)(torch.cat((_worst_inputs(k_weight, norm), _worst_inputs(v_weight, norm))))
    keys, values = (
        torch.nn.functional.linear(x, weight, bias).view(-1, HEADS, DIM)
        for weight, bias in ((k_weight, k_bias), (v_weight, v_bias))
    )
    angles = torch.rand(len(x), DIM // 2, generator=generator) * 6
    slots = torch.arange(len(x))
    pool = torch.zeros(-(-len(x) // 16), 2, HEADS, 16, DIM)
    reference.rope_and_cache(
        keys, keys, values, slots, torch.cat((angles.cos(), angles.sin()), 1), pool, slots, None, k_norm, 0.0
    )
    largest = pool.abs().amax(dim=(0, 3, 4))
    assert (largest <= E4M3_MAX * scale).all()
    assert (largest[1] > 0.8 * E4M3_MAX * scale[1]).all(), "the values' bound is loose"
