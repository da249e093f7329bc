"""Configurations of published models, as far as their size goes, and tiny ones of every family."""

from __future__ import annotations

from typing import Any

LLAMA3_8B: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip

TINY: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 128, "max_position_embeddings": 512, "pad_token_id": 0,
}  # fmt: skip
_MOE: dict[str, Any] = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}

OF_FAMILY: dict[str, list[dict[str, Any]]] = {
    "llama": [{}, {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}],
    "mistral": [{}, {"sliding_window": 32}],
    "qwen2": [{}, {"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 1}],
    "qwen3": [{}, {"attention_bias": True}],
    "gemma": [{}],
    "gemma2": [{"sliding_window": 32}],
    "gemma3_text": [{"sliding_window": 32, "sliding_window_pattern": 2}, {"tie_word_embeddings": False}],
    "mixtral": [{"num_local_experts": 4, "num_experts_per_tok": 2}],
    "qwen2_moe": [
        _MOE | {"shared_expert_intermediate_size": 48},
        _MOE | {"shared_expert_intermediate_size": 48, "decoder_sparse_step": 2},
    ],
    "qwen3_moe": [_MOE, _MOE | {"mlp_only_layers": [1]}],
    "gpt_oss": [{"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 32}],
    "phi3": [{}],
    "granite": [{}, {"attention_bias": True}],
    "olmo2": [{}],
    "smollm3": [{}],
    "starcoder2": [{}, {"use_bias": False}],
}
