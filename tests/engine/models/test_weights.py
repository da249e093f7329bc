"""Weight sources: GGUF files of every type, sharded and wrapped safetensors, and checkpoints that do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.gguf import GGUFFile, TensorType
from engine.models.config_reader import read_config
from engine.models.loader import load_model
from engine.models.weights import (
    DummySource,
    GGUFSource,
    SafetensorsSource,
    WeightError,
    check_shapes,
)
from tests.engine.models.oracle import largest_error, random_prompt
from tests.engine.models.paged import teacher_forced
from tests.gguf_models import write_gguf
from tests.models import (
    GEMMA3_CONFIG,
    LLAMA_CONFIG,
    LLAMA_LIKE,
    gemma3_weights,
    llama_weights,
    write_tiny_gemma3,
    write_tiny_llama,
)

WIDE: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "head_dim": 64,
    "vocab_size": 96,
}
"""Rows of 256: K types need whole blocks."""
CONFIGS = {
    "llama": LLAMA_CONFIG | WIDE | {"rope_scaling": None, "num_key_value_heads": 2},
    "gemma3": GEMMA3_CONFIG | WIDE | {"sliding_window_pattern": 2, "query_pre_attn_scalar": 64},
}
OTHERS = {
    family: LLAMA_LIKE[family] | WIDE | {"num_key_value_heads": 2, "use_sliding_window": False}
    for family in ("qwen2", "qwen3")
}
PROMPT = random_prompt(60, 96)


@pytest.mark.parametrize(
    ("family", "kind"),
    [(family, kind) for family in CONFIGS for kind in TensorType]
    + [(family, kind) for family in OTHERS for kind in TensorType if kind.name.endswith("_K")],
    ids=lambda value: getattr(value, "name", value),
)
def test_gguf_equals_safetensors_of_its_dequantised_weights(
    tmp_path: Path, family: str, kind: TensorType
) -> None:
    """Qwen's files of the other types: test_gguf_families. Mistral's are llama's."""
    config = (CONFIGS | OTHERS)[family]
    draw = gemma3_weights if family == "gemma3" else llama_weights
    path = tmp_path / "tiny.gguf"
    stored = write_gguf(path, family, config, draw(config, seed=5), kind.name)
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file(stored, tmp_path / "model.safetensors")
    from_gguf = load_model(path, dtype=torch.float32)
    from_safetensors = load_model(tmp_path, dtype=torch.float32)
    # An int8 head is approximate for unlikely tokens; here the shortlist leaves 32 of 96.
    bar = 0.1 if kind is TensorType.Q8_0 else 1e-4
    found, expected = teacher_forced(from_gguf, PROMPT), teacher_forced(from_safetensors, PROMPT)
    assert largest_error(found, expected) < bar
    likely = expected.topk(20, dim=-1).indices
    assert largest_error(found.gather(1, likely), expected.gather(1, likely)) < 1e-3


def test_llama_queries_and_keys_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    stored = write_gguf(path, "llama", CONFIGS["llama"], llama_weights(CONFIGS["llama"], 5), "F32")
    source = GGUFSource(GGUFFile(path), read_config(path))
    assert source.shapes().keys() == stored.keys()
    assert all(torch.equal(source.tensor(name), tensor) for name, tensor in stored.items())


def test_shards_equal_one_file(tmp_path: Path) -> None:
    one = write_tiny_llama(tmp_path / "one")
    three = write_tiny_llama(tmp_path / "three", shards=3)
    assert len(list(three.glob("*.safetensors"))) == 3
    sources = [SafetensorsSource(path, read_config(path)) for path in (one, three)]
    assert sources[0].shapes() == sources[1].shapes()
    assert all(torch.equal(sources[0].tensor(n), sources[1].tensor(n)) for n in sources[0].shapes())


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write_tiny_llama(tmp_path, shards=3)
    (tmp_path / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(WeightError, match=r"weights are missing.*00002-of-00003"):
        load_model(tmp_path, dtype=torch.float32)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    write_tiny_llama(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(WeightError, match=r"model\.safetensors is not a safetensors file"):
        load_model(tmp_path, dtype=torch.float32)


@pytest.mark.parametrize("prefix", ["language_model.", "model.language_model."])
def test_a_multimodal_wrapper_is_unwrapped(tmp_path: Path, prefix: str) -> None:
    write_tiny_gemma3(tmp_path)
    plain = SafetensorsSource(tmp_path, read_config(tmp_path))
    expected = {name: plain.tensor(name) for name in plain.shapes()}
    wrapped = {_wrapped(name, prefix): t for name, t in load_file(tmp_path / "model.safetensors").items()}
    wrapped["vision_tower.patch.weight"] = torch.zeros(3)
    wrapped["model.multi_modal_projector.weight"] = torch.zeros(3)
    save_file(wrapped, tmp_path / "model.safetensors")
    source = SafetensorsSource(tmp_path, read_config(tmp_path))
    assert source.shapes() == plain.shapes()
    assert all(torch.equal(source.tensor(name), tensor) for name, tensor in expected.items())


def test_every_misfit_is_named(tmp_path: Path) -> None:
    write_tiny_llama(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    weights["model.layers.9.mlp.up_proj.weight"] = torch.zeros(2, 2)
    weights["model.norm.weight"] = torch.zeros(65)
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(WeightError) as error:
        load_model(tmp_path, dtype=torch.float32)
    assert "missing: model.layers.1.mlp.up_proj.weight" in str(error.value)
    assert "unexpected: model.layers.9.mlp.up_proj.weight" in str(error.value)
    assert "misshapen: model.norm.weight is [65], the configuration asks for [64]" in str(error.value)


def test_a_long_list_of_misfits_is_cut() -> None:
    expected = {f"t{number}": (1,) for number in range(30)}
    with pytest.raises(WeightError, match=r"missing: t11; and 18 more$"):
        check_shapes(expected, {})


def test_gguf_tensors_of_unknown_names_are_unexpected(tmp_path: Path) -> None:
    config = CONFIGS["llama"]
    weights = llama_weights(config, 5)
    path = tmp_path / "tiny.gguf"
    write_gguf(path, "llama", config | {"num_hidden_layers": 1}, weights, "F32")
    with pytest.raises(WeightError, match=r"unexpected: model\.layers\.1\."):
        load_model(path, dtype=torch.float32)


def test_dummy_weights_depend_on_seed_and_name_only() -> None:
    shapes = {"a.weight": (4, 8), "b.weight": (4, 8), "model.norm.weight": (8,)}
    first, again, other = DummySource(shapes), DummySource(shapes), DummySource(shapes, seed=1)
    assert torch.equal(first.tensor("b.weight"), again.tensor("b.weight"))
    assert not torch.equal(first.tensor("a.weight"), first.tensor("b.weight"))
    assert not torch.equal(first.tensor("a.weight"), other.tensor("a.weight"))
    assert first.tensor("model.norm.weight").mean().item() == pytest.approx(1.0, abs=0.2)


def _wrapped(name: str, prefix: str) -> str:
    """`language_model.model.layers…` is the older layout, `model.language_model.layers…` the newer."""
    if prefix == "language_model.":
        return prefix + name
    return name.replace("model.", prefix, 1)
