"""KV bytes: the known figures by hand, and page for page what the engine takes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.config import EngineConfig, resolve
from engine.models.config_reader import read_config
from engine.models.model_config import kv_groups
from engine.runner import kv as engine_kv
from tests.models import write_tiny_gemma3, write_tiny_llama
from tests.workbench.capacity.configs import LLAMA3_8B
from workbench.capacity import kv
from workbench.capacity.config_source import shape_of
from workbench.capacity.shape import Attention
from workbench.capacity.source import read_model

STEP = 32


def test_llama_3_8b_takes_128_kib_a_token_and_half_a_gib_at_4096() -> None:
    attention = shape_of(LLAMA3_8B).attention
    assert kv.bytes_per_token(attention, 2) == 128 * 1024
    assert kv.bytes_per_sequence(attention, 4096, 2) == 2**29
    assert kv.bytes_per_sequence(attention, 4096, 1) == 2**28, "fp8: a byte a number"


def test_a_sequence_is_whole_pages_and_a_window_keeps_its_own() -> None:
    assert [kv.pages(tokens, None) for tokens in (1, 16, 17)] == [1, 1, 2]
    # 511 tokens before the newest and two steps in flight: 513 tokens, 33 pages, one more that is half behind.
    assert kv.pages(8192, 512) == 34
    assert kv.pages(100, 512) == 7, "shorter than its window"
    mixed = Attention(8, 2, 4, (None, 512, 512))
    assert kv.bytes_per_sequence(mixed, 8192, 2) == (512 + 34 + 34) * 16 * 2 * 2 * 4 * 2


def test_heads_are_divided_but_never_cut() -> None:
    grouped = Attention(32, 8, 128, (None,))
    assert [kv.share_per_gpu(grouped, tp) for tp in (1, 2, 8, 16)] == [1, 1 / 2, 1 / 8, 1 / 8]


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mistral", "gemma3"])
@pytest.mark.parametrize("kv_type", ["bf16", "fp32", "fp8"])
def test_a_longest_request_takes_the_engines_pages_to_the_byte(
    tmp_path: Path, family: str, kv_type: str
) -> None:
    if family == "gemma3":
        checkpoint = write_tiny_gemma3(tmp_path / "m")
    else:
        checkpoint = write_tiny_llama(tmp_path / "m", family=family)
    model = read_config(checkpoint)
    config = resolve(
        EngineConfig.from_flags({"model": str(checkpoint), "max_num_batched_tokens": STEP}), model, "cpu"
    )
    groups = kv_groups(model)
    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp8": torch.float8_e4m3fn}[kv_type]
    taken = engine_kv.pages_of_longest(config, groups) * engine_kv.page_bytes(model, groups, dtype)
    attention = read_model(checkpoint).shape.attention
    assert kv.bytes_per_sequence(attention, config.max_model_len, kv.KV_BYTES[kv_type], STEP) == taken
