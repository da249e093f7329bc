"""engine.models.decoder: every family runs in its frame, layer after layer, and keeps no state between steps."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.models.decoder import Decoder
from engine.models.loader import load_model
from tests.engine.models.paged import teacher_forced
from tests.models import write_tiny_gemma3, write_tiny_llama


@pytest.mark.parametrize("write", [write_tiny_llama, write_tiny_gemma3])
def test_the_same_step_twice_is_the_same(write: object, tmp_path: Path) -> None:
    assert callable(write)
    write(tmp_path)
    model = load_model(tmp_path, dtype=torch.float32)
    assert isinstance(model, Decoder)
    assert len(model.layers) == model.config.num_layers
    first, second = (teacher_forced(model, [5, 6, 7, 8]) for _ in range(2))
    assert torch.equal(first, second)
