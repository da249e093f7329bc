"""load_model: formats, types, rope length."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from engine.models.loader import load_model
from tests.engine.models.oracle import random_prompt
from tests.engine.models.paged import teacher_forced
from tests.models import GEMMA3_CONFIG, LLAMA_CONFIG, write_tiny_llama

PROMPT = random_prompt(40, 128)


@pytest.mark.parametrize("config", [LLAMA_CONFIG, GEMMA3_CONFIG], ids=["llama", "gemma3"])
def test_dummy_needs_a_configuration_only_and_follows_its_seed(
    tmp_path: Path, config: dict[str, object]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config | {"vocab_size": 128}))
    first, again, other = (
        teacher_forced(load_model(tmp_path, dtype=torch.float32, load_format="dummy", seed=seed), PROMPT)
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert torch.isfinite(first).all()
    assert not torch.allclose(first, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_hidden_states_have_the_compute_type_and_logits_are_fp32(tmp_path: Path, dtype: torch.dtype) -> None:
    write_tiny_llama(tmp_path)
    model = load_model(tmp_path, dtype=dtype)
    hidden = torch.randn(3, 64).to(dtype)
    assert model.logits(hidden).dtype == torch.float32
    assert model.logits(hidden).shape == (3, 512)
    assert model.logits(hidden[:0]).shape == (0, 512)


def test_rope_tables_stop_at_the_longest_sequence_served(tmp_path: Path) -> None:
    write_tiny_llama(tmp_path)
    short = load_model(tmp_path, dtype=torch.float32, max_positions=64)
    whole = load_model(tmp_path, dtype=torch.float32)
    assert short.layers[0].attention.rope.shape == (64, 16)  # type: ignore[attr-defined]  # a Llama has layers
    assert torch.equal(teacher_forced(short, PROMPT), teacher_forced(whole, PROMPT))
