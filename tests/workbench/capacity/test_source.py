"""Files a plan is made from, and those it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.models import write_tiny_llama
from tests.workbench.capacity.configs import LLAMA3_8B
from workbench.capacity.errors import PlanError
from workbench.capacity.source import read_model


def test_a_config_alone_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA3_8B))
    model = read_model(path)
    assert (model.weights.format, model.stored_bytes) == ("bf16", None)
    assert read_model(tmp_path) == model, "its directory says the same"


def test_stored_quantisation_is_taken_unless_told_otherwise(tmp_path: Path) -> None:
    config = LLAMA3_8B | {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert read_model(tmp_path).weights.format == "int4"
    assert read_model(tmp_path, "fp8").weights.format == "fp8"


def test_wrong_files_are_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    (tmp_path / "list").write_text("[]")
    (tmp_path / "empty").mkdir()
    (tmp_path / "config.json").write_text(json.dumps(LLAMA3_8B))
    for name, weights, said in (
        ("nothing", "auto", "does not exist: give a checkpoint directory"),
        ("text", "auto", "neither JSON nor GGUF"),
        ("list", "auto", "does not hold a JSON object"),
        ("empty", "auto", "config.json is missing"),
        ("config.json", "int3", "give auto or one of fp32"),
    ):
        with pytest.raises(PlanError, match=said):
            read_model(tmp_path / name, weights)


def test_a_pointer_instead_of_weights_is_seen(tmp_path: Path) -> None:
    checkpoint = write_tiny_llama(tmp_path / "m")
    (checkpoint / "model.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
    )
    with pytest.raises(PlanError, match="no safetensors file: fetch it anew"):
        read_model(checkpoint)


def test_gguf_has_its_own_weights(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    with pytest.raises(PlanError, match="leave --weights and --as out"):
        read_model(tmp_path / "m.gguf", "int4")
