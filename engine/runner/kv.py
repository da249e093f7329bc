"""The page pool: how big it may be, and its one tensor.

Layout [num_blocks, layers_per_group, 2, kv_heads, block_size, head_dim]: a page's layers lie together, so
that a page moves in one copy; layer i of a group reads and writes the view pool[:, i]. Knows no rows: who
owns a page is the core's business.
"""

from __future__ import annotations

import math

import numpy as np
import psutil
import torch

from engine.config import BLOCK_SIZE, ConfigError, ResolvedConfig
from engine.core.contract import KVGroup, KVLayout
from engine.models.model_config import ModelConfig

_CPU_SHARE = 0.15
"""Share of the free memory that pages take on a CPU when nothing is said."""
_CPU_BYTES_MAX = 4 * 2**30
_STEPS_IN_FLIGHT = 2
"""A window's pages are held until the oldest launched step is collected."""


def page_bytes(model: ModelConfig, groups: tuple[KVGroup, ...], dtype: torch.dtype) -> int:
    """Bytes of one page: keys and values of 16 tokens in every layer of a group."""
    layers = len(groups[0].layer_ids)
    return layers * 2 * model.num_kv_heads * BLOCK_SIZE * model.head_dim * dtype.itemsize


def pages_of_longest(config: ResolvedConfig, groups: tuple[KVGroup, ...]) -> int:
    """Pages that one request of max_model_len holds at most: in a windowed group those between the oldest
    position that a step in flight sees and the newest that one writes."""

    def of_group(group: KVGroup) -> int:
        everything = -(-config.max_model_len // BLOCK_SIZE)
        if group.window is None:
            return everything
        span = group.window - 1 + _STEPS_IN_FLIGHT * config.max_num_batched_tokens
        return min(everything, -(-span // BLOCK_SIZE) + 1)

    return sum(of_group(group) for group in groups)


def layout_for(
    config: ResolvedConfig, model: ModelConfig, groups: tuple[KVGroup, ...], memory_bytes: int
) -> KVLayout:
    """The pool for `memory_bytes`, unless the settings fix its size. Refuses one that the longest request
    would not fit in, and takes no more than all rows at full length could use."""
    cache = config.settings.cache
    size = page_bytes(model, groups, torch_dtype(config.kv_dtype))
    needed = pages_of_longest(config, groups)
    if cache.num_gpu_blocks_override is not None:
        num_blocks = cache.num_gpu_blocks_override
    else:
        budget = cache.kv_cache_memory_bytes or memory_bytes
        num_blocks = min(budget // size, needed * config.max_num_seqs)
    if num_blocks < needed:
        raise ConfigError(
            f"a request of max_model_len ({config.max_model_len}) needs {needed} KV pages of {size:,} bytes, but "
            f"only {num_blocks} fit: lower max_model_len, or raise kv_cache_memory_bytes, "
            f"gpu_memory_utilization or num_gpu_blocks_override"
        )
    num_host_blocks = int(cache.kv_offload_gib * 2**30) // size
    return KVLayout(BLOCK_SIZE, num_blocks, groups, num_host_blocks)


def allocate(layout: KVLayout, model: ModelConfig, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A zeroed pool. On a CPU untouched pages take no memory, and no time, yet."""
    layers = len(layout.groups[0].layer_ids)
    shape = (layout.num_blocks, layers, 2, model.num_kv_heads, layout.block_size, model.head_dim)
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    # torch.zeros would write all of it; numpy asks the system for memory that is zero already.
    raw = np.zeros(math.prod(shape) * dtype.itemsize, dtype=np.uint8)
    return torch.from_numpy(raw).view(dtype).view(shape)


def cpu_budget() -> int:
    """Bytes for pages on a CPU when nothing is said."""
    return min(_CPU_BYTES_MAX, int(psutil.virtual_memory().available * _CPU_SHARE))


def gpu_budget(device: torch.device, utilization: float) -> int:
    """Bytes for pages on a GPU after the worst-case step has run: the allowed share of the card, less what
    torch took from the card at its peak (graphs included) and what anything else on the card holds."""
    free, total = torch.cuda.mem_get_info(device)
    foreign = total - free - torch.cuda.memory_reserved(device)
    return int(total * utilization) - foreign - torch.cuda.max_memory_reserved(device)


def torch_dtype(name: str) -> torch.dtype:
    """ "bfloat16" → torch.bfloat16."""
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype), name
    return dtype
