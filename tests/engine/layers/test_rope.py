"""Rope tables against `transformers` and against the formula."""

from __future__ import annotations

import math

import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from engine.layers.rope import inverse_frequencies, rope_table
from engine.models.model_config import RopeScaling


@pytest.mark.parametrize(("head_dim", "base", "original"), [(16, 10_000.0, 64), (128, 500_000.0, 8192)])
def test_llama3_equals_transformers(head_dim: int, base: float, original: int) -> None:
    parameters = {
        "rope_type": "llama3",
        "rope_theta": base,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": original,
    }
    config = LlamaConfig(head_dim=head_dim, rope_parameters=parameters, max_position_embeddings=8 * original)
    expected, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    found = inverse_frequencies(head_dim, base, RopeScaling("llama3", 8.0, 1.0, 4.0, original))
    assert torch.allclose(found, expected, rtol=1e-6, atol=0)
    assert found[0] == expected[0]
    assert not torch.allclose(found, inverse_frequencies(head_dim, base, RopeScaling()))


def test_linear_and_stored_divisors() -> None:
    plain = inverse_frequencies(8, 100.0, RopeScaling())
    assert torch.allclose(plain, torch.tensor([1.0, 100**-0.25, 100**-0.5, 100**-0.75]))
    assert torch.equal(inverse_frequencies(8, 100.0, RopeScaling("linear", 4.0)), plain / 4)
    divisors = (1.0, 1.0, 2.0, 8.0)
    assert torch.equal(inverse_frequencies(8, 100.0, RopeScaling(), divisors), plain / torch.tensor(divisors))


def test_table_is_cosines_then_sines() -> None:
    table = rope_table(torch.tensor([1.0, 0.25]), 5)
    assert table.shape == (5, 4)
    angles = (3.0, 0.75)
    expected = [math.cos(angle) for angle in angles] + [math.sin(angle) for angle in angles]
    assert table[3].tolist() == pytest.approx(expected, abs=1e-6)
    assert table[0].tolist() == [1, 1, 0, 0]
