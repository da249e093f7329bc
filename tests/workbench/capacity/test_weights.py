"""Bytes of weights by format: against hand-computed values and against real checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.models import llama_weights, write_tiny_gemma3, write_tiny_llama
from tests.workbench.capacity.configs import LLAMA3_8B
from workbench.capacity.config_source import shape_of
from workbench.capacity.shape import Attention, Matrix, Shape
from workbench.capacity.source import read_model, stored_bytes
from workbench.capacity.weights import FORMATS, Weights, weigh

SMALL = Shape(
    "toy", Attention(4, 2, 16, (None,)),
    (Matrix("linear", 64, 256, 3), Matrix("kv", 32, 256, 2), Matrix("embedding", 100, 256)), 1000, 512,
)  # fmt: skip
LINEAR, KV, EMBEDDING = 64 * 256 * 3, 32 * 256 * 2, 100 * 256


def test_formats_by_hand() -> None:
    assert weigh(SMALL, FORMATS["bf16"]).total == 2 * (LINEAR + KV + EMBEDDING + 1000)
    assert weigh(SMALL, FORMATS["fp32"]).total == 4 * (LINEAR + KV + EMBEDDING + 1000)
    plain = 2 * (EMBEDDING + 1000)
    channels = 64 * 3 + 32 * 2
    assert weigh(SMALL, FORMATS["fp8"]).total == LINEAR + KV + 4 * channels + plain
    # Two groups of 128 a channel, each with a 16-bit scale and a 4-bit zero point.
    assert weigh(SMALL, FORMATS["int4"]).total == (LINEAR + KV) / 2 + 2.5 * 2 * channels + plain
    assert weigh(SMALL, FORMATS["mxfp4"]).total == weigh(SMALL, FORMATS["bf16"]).total, "there are no experts"


def test_llama_3_8b() -> None:
    shape = shape_of(LLAMA3_8B)
    assert shape.num_parameters == 8_030_261_248
    assert weigh(shape, FORMATS["bf16"]).total == 2 * 8_030_261_248


def test_gpus_share_matrices_repeat_kv_heads_and_hold_vectors_whole() -> None:
    weights = weigh(SMALL, FORMATS["bf16"])
    assert weights.per_gpu(1, 2) == weights.total
    assert weights.per_gpu(4, 2) == 2 * ((LINEAR + EMBEDDING) / 4 + KV / 2 + 1000)


def test_a_step_reads_the_head_but_not_the_embedding_and_only_the_experts_it_needs() -> None:
    tied = Weights("bf16", {"linear": 100, "embedding": 30}, 5)
    assert tied.read_per_step(1.0, 1) == 135, "the tied embedding is the head"
    untied = Weights("bf16", {"linear": 100, "embedding": 30, "head": 30, "expert": 800}, 5)
    assert untied.read_per_step(0.25, 1) == pytest.approx(100 + 30 + 5 + 200)
    assert untied.read_per_step(0.25, 2) == pytest.approx(135 + 800 * (1 - 0.75**2))


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mistral", "gemma3"])
def test_bytes_are_those_of_a_real_checkpoint(tmp_path: Path, family: str) -> None:
    if family == "gemma3":
        checkpoint = write_tiny_gemma3(tmp_path / "m", shards=2)
    else:
        checkpoint = write_tiny_llama(tmp_path / "m", family=family)
    model = read_model(checkpoint, "fp32")
    assert model.weights.total == model.stored_bytes
    assert read_model(checkpoint).weights.total * 2 == model.stored_bytes, "a GPU computes in half types"


def test_fp8_bytes_are_those_of_tensors_quantised_per_channel(tmp_path: Path) -> None:
    checkpoint = write_tiny_llama(tmp_path / "m")
    config = read_model(checkpoint).shape
    tensors: dict[str, torch.Tensor] = {}
    for name, weight in llama_weights(json.loads((checkpoint / "config.json").read_text()), 7).items():
        if name.endswith("_proj.weight"):
            scale = weight.abs().amax(dim=1, keepdim=True) / 448
            tensors[name] = (weight / scale).to(torch.float8_e4m3fn)
            tensors[f"{name}_scale"] = scale
        else:
            tensors[name] = weight.to(torch.bfloat16)
    (tmp_path / "q").mkdir()
    save_file(tensors, tmp_path / "q" / "model.safetensors")
    assert weigh(config, FORMATS["fp8"]).total == stored_bytes(tmp_path / "q")
