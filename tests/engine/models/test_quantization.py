"""What a checkpoint's quantization_config may say, and fp8 checkpoints that say it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.layers.fp8_linear import Fp8Linear
from engine.layers.linear import Linear
from engine.models.config_reader import read_config
from engine.models.loader import load_model
from engine.models.model_config import ModelConfigError
from engine.models.quantization import Fp8Parts, stored_quantization
from engine.models.weights import WeightError
from kernels.e4m3 import E4M3, E4M3_MAX
from kernels.quantize import quantize_rows
from tests.engine.models.oracle import random_prompt, top_errors
from tests.engine.models.paged import teacher_forced
from tests.models import write_tiny_llama

PER_CHANNEL: dict[str, Any] = {
    "quant_method": "compressed-tensors",
    "format": "float-quantized",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True},
            "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True},
        }
    },
}
PER_TENSOR = {"quant_method": "fp8", "activation_scheme": "static"}
PROMPT = random_prompt(60, 512)


def test_plain_checkpoints_say_nothing() -> None:
    assert stored_quantization({}) is None
    assert stored_quantization({"quantization_config": PER_CHANNEL}) == "fp8"
    assert stored_quantization({"quantization_config": PER_TENSOR}) == "fp8"


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"quant_method": "awq"}, "'awq' is not supported: fp8"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "a scale per block are not supported"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int", "strategy": "group"}}},
            },
            "weights of type int with 4 bits and a scale per group",
        ),
    ],
)
def test_other_methods_are_refused_with_what_to_do(stated: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelConfigError, match=says):
        stored_quantization({"quantization_config": stated})


def _quantize_checkpoint(directory: Path, stated: dict[str, Any], *, per_tensor: bool) -> Path:
    """Rewrites a tiny checkpoint's projections in fp8, with the scales that such files carry."""
    path = directory / "model.safetensors"
    weights = load_file(path)
    for name in [name for name in weights if name.endswith("_proj.weight")]:
        weight = weights[name]
        scale: Tensor
        if per_tensor:
            scale = weight.abs().max() / E4M3_MAX
            weights[name] = (weight / scale).to(E4M3)
            weights[f"{name.removesuffix('weight')}input_scale"] = torch.tensor(0.02)
        else:
            weights[name], scale = quantize_rows(weight.float())
        weights[f"{name}_scale"] = scale
    save_file(weights, path)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | {"quantization_config": stated}))
    return directory


@pytest.mark.parametrize(("stated", "per_tensor"), [(PER_CHANNEL, False), (PER_TENSOR, True)])
def test_fp8_checkpoints_are_read_as_they_are(
    tmp_path: Path, stated: dict[str, Any], per_tensor: bool
) -> None:
    """The same answers as the plain checkpoint quantised at load where the scales agree, close ones where one
    scale serves a whole matrix."""
    plain = write_tiny_llama(tmp_path / "plain")
    stored = _quantize_checkpoint(write_tiny_llama(tmp_path / "stored"), stated, per_tensor=per_tensor)
    assert read_config(stored).quantization == "fp8"
    from_stored = load_model(stored, dtype=torch.float32)
    at_load = load_model(plain, dtype=torch.float32, fp8=Fp8Parts(weights=True))
    unquantised = teacher_forced(load_model(plain, dtype=torch.float32), PROMPT)
    found, expected = teacher_forced(from_stored, PROMPT), teacher_forced(at_load, PROMPT)
    if not per_tensor:
        assert torch.allclose(found, expected, atol=1e-3)
    assert 1e-3 < top_errors(found, unquantised)[0] < 0.3


def test_what_a_checkpoint_left_plain_stays_plain(tmp_path: Path) -> None:
    stored = _quantize_checkpoint(write_tiny_llama(tmp_path), PER_CHANNEL, per_tensor=False)
    weights = load_file(stored / "model.safetensors")
    plain = "model.layers.1.mlp.down_proj.weight"
    weights[plain] = weights[plain].float() * weights.pop(f"{plain}_scale")
    save_file(weights, stored / "model.safetensors")
    layers = load_model(stored, dtype=torch.float32).layers  # type: ignore[attr-defined]  # a Llama has layers
    assert isinstance(layers[0].mlp.down, Fp8Linear)
    assert isinstance(layers[1].mlp.down, Linear)


def test_a_scale_that_is_missing_is_named(tmp_path: Path) -> None:
    stored = _quantize_checkpoint(write_tiny_llama(tmp_path), PER_CHANNEL, per_tensor=False)
    weights = load_file(stored / "model.safetensors")
    del weights["model.layers.0.self_attn.k_proj.weight_scale"]
    save_file(weights, stored / "model.safetensors")
    with pytest.raises(WeightError, match=r"layers\.0\.self_attn\.k_proj\.weight is fp8 and needs one scale"):
        load_model(stored, dtype=torch.float32)


def test_the_checkpoint_may_bring_scales_of_the_kv_cache(tmp_path: Path) -> None:
    stored = _quantize_checkpoint(write_tiny_llama(tmp_path), PER_CHANNEL, per_tensor=False)
    weights = load_file(stored / "model.safetensors")
    for layer in range(2):
        weights[f"model.layers.{layer}.self_attn.k_scale"] = torch.tensor([0.25])
        weights[f"model.layers.{layer}.self_attn.v_scale"] = torch.tensor([0.5 + layer])
    save_file(weights, stored / "model.safetensors")
    layers = load_model(stored, dtype=torch.float32, fp8=Fp8Parts(weights=True, kv_cache=True)).layers  # type: ignore[attr-defined]  # a Llama has layers
    assert layers[1].attention.kv_scale.tolist() == [[0.25, 0.25], [1.5, 1.5]]
    # The third layer's are not given, so they are those that nothing can exceed.
    assert layers[2].attention.kv_scale.unique().numel() > 2
