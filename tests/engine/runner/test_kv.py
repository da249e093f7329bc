"""engine.runner.kv: the size of a page and of the pool."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from engine.config import ConfigError, EngineConfig, ResolvedConfig, resolve
from engine.core.contract import KVGroup
from engine.runner import kv
from tests.engine.runner.toy import toy_config

GROUPS = (KVGroup((0, 1, 2), None), KVGroup((3, 4, 5), 20))
# 3 layers, keys and values, 2 heads, 16 tokens, 8 dimensions, 4 bytes
PAGE_BYTES = 3 * 2 * 2 * 16 * 8 * 4


def _config(**flags: object) -> ResolvedConfig:
    defaults = {"model": "m", "max_num_seqs": 4, "max_num_batched_tokens": 32}
    return resolve(EngineConfig.from_flags(defaults | flags), toy_config(), "cpu")


def test_page_bytes() -> None:
    assert kv.page_bytes(toy_config(), GROUPS, torch.float32) == PAGE_BYTES
    assert kv.page_bytes(toy_config(), GROUPS, torch.bfloat16) == PAGE_BYTES // 2


def test_fp8_pages_are_a_byte_a_number() -> None:
    for name in ("fp8", "fp8_e4m3"):
        dtype = kv.torch_dtype(_config(kv_cache_dtype=name).kv_dtype)
        assert kv.page_bytes(toy_config(), GROUPS, dtype) == PAGE_BYTES // 4
    layout = kv.layout_for(_config(kv_cache_dtype="fp8"), toy_config(), GROUPS, 50 * PAGE_BYTES)
    assert layout.num_blocks == 4 * 23
    pool = kv.allocate(layout, toy_config(), dtype, torch.device("cpu"))
    assert pool.dtype == torch.float8_e4m3fn
    assert not pool.float().any()


def test_longest_request_holds_all_global_pages_and_a_window_of_local_ones() -> None:
    # 256 positions: 16 global pages; 19 + 2 · 32 tokens: 6 local pages and one that is half behind the window.
    assert kv.pages_of_longest(_config(), GROUPS) == 16 + 7
    wide = (GROUPS[0], dataclasses.replace(GROUPS[1], window=10_000))
    assert kv.pages_of_longest(_config(), wide) == 32


def test_pool_follows_memory_up_to_what_all_rows_can_use() -> None:
    assert kv.layout_for(_config(), toy_config(), GROUPS, 50 * PAGE_BYTES + 7).num_blocks == 50
    assert kv.layout_for(_config(), toy_config(), GROUPS, 10**12).num_blocks == 4 * 23


def test_settings_win_over_memory() -> None:
    by_bytes = _config(kv_cache_memory_bytes=30 * PAGE_BYTES)
    assert kv.layout_for(by_bytes, toy_config(), GROUPS, 10**12).num_blocks == 30
    by_count = _config(num_gpu_blocks_override=1000)
    assert kv.layout_for(by_count, toy_config(), GROUPS, 0).num_blocks == 1000


def test_a_pool_too_small_for_the_longest_request_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"max_model_len \(256\) needs 23 KV pages .* only 22 fit"):
        kv.layout_for(_config(), toy_config(), GROUPS, 23 * PAGE_BYTES - 1)


def test_allocated_pool_has_the_stated_layout() -> None:
    layout = kv.layout_for(_config(num_gpu_blocks_override=30), toy_config(), GROUPS, 0)
    pool = kv.allocate(layout, toy_config(), torch.bfloat16, torch.device("cpu"))
    assert pool.shape == (30, 3, 2, 2, 16, 8)
    assert pool.dtype == torch.bfloat16
    assert not pool.any()


def test_cpu_budget_is_a_share_of_free_memory() -> None:
    assert 0 < kv.cpu_budget() <= 4 * 2**30


def test_the_hosts_tier_is_as_many_pages_as_fit() -> None:
    assert kv.layout_for(_config(), toy_config(), GROUPS, 10**12).num_host_blocks == 0
    size = (10 * PAGE_BYTES + PAGE_BYTES // 2) / 2**30
    assert kv.layout_for(_config(kv_offload_gib=size), toy_config(), GROUPS, 10**12).num_host_blocks == 10
