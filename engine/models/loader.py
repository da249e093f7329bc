"""Checkpoint → model on a device. The runner calls `load_model` once, at start.

Reads a directory with config.json and safetensors, or a .gguf file; `dummy` draws the weights instead.
Every tensor's name and shape is checked before the first one is read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

from engine.gguf import GGUFFile
from engine.layers.batch import CausalLM
from engine.models.build import Parts
from engine.models.config_reader import read_config
from engine.models.model_config import ModelConfig
from engine.models.quantization import Fp8Parts
from engine.models.registry import ARCHITECTURES
from engine.models.weights import DummySource, GGUFSource, SafetensorsSource, WeightSource, check_shapes

LoadFormat = Literal["auto", "dummy"]


def load_model(
    path: Path,
    *,
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
    load_format: LoadFormat = "auto",
    max_positions: int | None = None,
    config: ModelConfig | None = None,
    seed: int = 0,
    fp8: Fp8Parts | None = None,
    batch_invariant: bool = False,
) -> CausalLM:
    """`max_positions` bounds the rope tables (default: the model's own limit); `config` saves reading it
    again; `seed` is for dummy weights; `fp8` is what to hold in 8 bits (default: what the checkpoint does);
    `batch_invariant` makes a token's answer independent of the others in its batch."""
    config = config or read_config(path)
    architecture = ARCHITECTURES[config.family]
    expected = architecture.tensor_shapes(config)
    source: WeightSource
    if load_format == "dummy":
        source = DummySource(expected, seed, device)
    elif path.is_file():
        source = GGUFSource(GGUFFile(path), config)
    else:
        source = SafetensorsSource(path, config)
    check_shapes(expected, source.shapes())
    parts = Parts(
        config,
        source,
        dtype=dtype,
        device=torch.device(device),
        num_positions=min(config.max_positions, max_positions or config.max_positions),
        fp8=fp8 or Fp8Parts(weights=config.quantization == "fp8"),
        batch_invariant=batch_invariant,
    )
    return architecture.build(parts)
