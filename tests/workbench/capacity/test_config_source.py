"""What a config.json is refused for, and what its quantisation means in bytes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workbench.capacity.configs import LLAMA3_8B, TINY
from workbench.capacity.config_source import plain_type, shape_of, stored_format
from workbench.capacity.errors import PlanError


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"model_type": "deepseek_v3", "kv_lora_rank": 512}, "multi-head latent attention .*tollway bench"),
        ({"model_type": "mamba", "ssm_state_size": 16}, "recurrent layers"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "only decoders"),
        ({"model_type": "brand_new"}, "model_type 'brand_new' is not known; known are .* --as llama"),
        ({"hidden_size": None}, "hidden_size must be a positive integer, not None"),
        ({"num_attention_heads": 3, "num_key_value_heads": 2}, "3 heads cannot share 2"),
        (
            {"model_type": "gemma2", "sliding_window": 8, "layer_types": ["chunked_attention"] * 4},
            "layers of type 'chunked_attention' are not known",
        ),
    ],
)
def test_what_cannot_be_counted_is_refused_with_a_way_out(overrides: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        shape_of(TINY | {"model_type": "llama"} | overrides)


def test_an_unknown_family_can_be_read_like_a_known_one() -> None:
    known = shape_of(LLAMA3_8B)
    assert shape_of(LLAMA3_8B | {"model_type": "brand_new"}, "llama") == known


def test_kinds_of_attention() -> None:
    kinds = {
        heads: shape_of(LLAMA3_8B | {"num_key_value_heads": heads}).attention.kind for heads in (32, 8, 1)
    }
    assert kinds == {32: "MHA", 8: "GQA", 1: "MQA"}


def test_a_model_with_a_text_part_is_that_part() -> None:
    text = TINY | {"model_type": "gemma3_text"}
    assert shape_of({"model_type": "gemma3", "text_config": text}) == shape_of(text)


@pytest.mark.parametrize(
    ("stated", "bits_per_weight"),
    [
        ({"quant_method": "fp8"}, 8 + 32 / 4096),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8 + 32 / 128**2),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 4 + 20 / 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 8 + 24 / 4096),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"type": "int", "num_bits": 4, "group_size": 32}}}},
            4 + 20 / 32,
        ),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"type": "float", "num_bits": 8}}}},
            8 + 32 / 4096,
        ),
    ],
)  # fmt: skip
def test_stored_formats(stated: dict[str, Any], bits_per_weight: float) -> None:
    found = stored_format({"quantization_config": stated})
    assert found is not None
    (matrix,) = {m for m in shape_of(LLAMA3_8B).matrices if m.rows == m.columns == 4096 and m.count == 32}
    assert found.bytes_of(matrix) * 8 / matrix.elements == pytest.approx(bits_per_weight, rel=1e-12)


def test_experts_alone_are_mxfp4() -> None:
    config = TINY | {"model_type": "gpt_oss", "num_local_experts": 4, "num_experts_per_tok": 2}
    found = stored_format({"quantization_config": {"quant_method": "mxfp4"}})
    assert found is not None
    bits = {m.role: found.bytes_of(m) * 8 / m.elements for m in shape_of(config).matrices}
    assert bits["expert"] == pytest.approx(4.25, rel=0.02)
    assert bits["linear"] == bits["router"] == 16


def test_no_quantisation_and_an_unknown_one() -> None:
    assert stored_format({}) is None
    with pytest.raises(PlanError, match=r"'quip' are not known here; .* --weights int4"):
        stored_format({"quantization_config": {"quant_method": "quip"}})
    assert [plain_type({"dtype": name}) for name in ("float16", "float32", "bfloat16", None)] == [
        "fp16", "fp32", "bf16", "bf16",
    ]  # fmt: skip
