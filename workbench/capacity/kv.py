"""Bytes of keys and values: per token, per sequence, per GPU. Pure; knows no weights and no memory.

A token has 2 · layers · KV heads · head size numbers. A sequence is counted in pages of 16 tokens, as the engine hands
them out: a layer with a window keeps the pages that hold the window, the others keep all.
"""

from __future__ import annotations

from workbench.capacity.shape import Attention

PAGE_TOKENS = 16
_STEPS_IN_FLIGHT = 2
"""A window's pages are held until the oldest launched step is done."""
KV_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "fp32": 4.0}


def bytes_per_token(attention: Attention, element_bytes: float) -> float:
    """2 · L · n_kv · d_head · bytes, whatever the windows: what a token costs while every layer still sees it."""
    return len(attention.windows) * _layer_token_bytes(attention, element_bytes)


def bytes_per_sequence(
    attention: Attention, num_tokens: int, element_bytes: float, step_tokens: int = 1
) -> float:
    """What a sequence of `num_tokens` holds. `step_tokens`: of it in one step; 1 while it answers."""
    tokens = sum(PAGE_TOKENS * pages(num_tokens, window, step_tokens) for window in attention.windows)
    return tokens * _layer_token_bytes(attention, element_bytes)


def pages(num_tokens: int, window: int | None, step_tokens: int = 1) -> int:
    """Pages of one layer."""
    everything = -(-num_tokens // PAGE_TOKENS)
    if window is None:
        return everything
    span = window - 1 + _STEPS_IN_FLIGHT * step_tokens
    return min(everything, -(-span // PAGE_TOKENS) + 1)


def share_per_gpu(attention: Attention, tensor_parallel: int) -> float:
    """Of the whole KV, what each GPU of a tensor-parallel group holds: a head is never divided, only repeated."""
    return 1 / min(tensor_parallel, attention.num_kv_heads)


def _layer_token_bytes(attention: Attention, element_bytes: float) -> float:
    return 2 * attention.num_kv_heads * attention.head_dim * element_bytes
