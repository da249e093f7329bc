"""A model that must find one token among 65,536, with keys and values in fp8.

One layer, made by hand: the last token asks for a needle of any of ten kinds, the needle's value says which kind it is,
and the head names it. All other tokens have keys and values of their own, so that together they weigh something.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.layers.batch import CausalLM, ForwardBatch, GroupBatch
from engine.models.loader import load_model
from engine.models.quantization import Fp8Parts
from kernels.e4m3 import E4M3

LENGTH, CHUNK, PAGE, HIDDEN, DIM = 65_536, 512, 16, 64, 16
KINDS = range(10, 20)
QUESTION = 20
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32, "hidden_size": HIDDEN,
    "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
    "head_dim": DIM, "max_position_embeddings": LENGTH, "rope_theta": 1e12, "bos_token_id": 0, "eos_token_id": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dimension 7 turns by 10⁻¹¹ a position: what matches there matches at any distance."""
    directory, draw = tmp_path_factory.mktemp("needle"), torch.Generator().manual_seed(5)
    shapes = {"q": (DIM, HIDDEN), "k": (DIM, HIDDEN), "v": (DIM, HIDDEN), "o": (HIDDEN, DIM)}
    weights = {
        f"model.layers.0.self_attn.{name}_proj.weight": torch.zeros(*shape) for name, shape in shapes.items()
    }
    q, k, v, o = weights.values()
    q[7, QUESTION] = 1.0
    k[7, :10], v[:, :10] = torch.randn(10, generator=draw) / 10, torch.randn(DIM, 10, generator=draw) / 3
    k[7, KINDS] = 1.0
    head = torch.zeros(32, HIDDEN)
    for place, kind in enumerate(KINDS):
        v[place, kind] = o[32 + place, place] = head[kind, 32 + place] = 1.0
    for name, shape in (("gate", (32, HIDDEN)), ("up", (32, HIDDEN)), ("down", (HIDDEN, 32))):
        weights[f"model.layers.0.mlp.{name}_proj.weight"] = torch.zeros(*shape)
    for name in ("model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm", "model.norm"):
        weights[f"{name}.weight"] = torch.ones(HIDDEN)
    weights |= {"model.embed_tokens.weight": torch.eye(32, HIDDEN), "lm_head.weight": head}
    save_file(weights, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(CONFIG))
    return directory


@pytest.mark.parametrize(("place", "kind"), [(3, 12), (40_007, 19), (65_500, 10)])
def test_the_needle_is_named(checkpoint: Path, place: int, kind: int) -> None:
    prompt = torch.randint(0, 10, (LENGTH,), generator=torch.Generator().manual_seed(place))
    prompt[place], prompt[-1] = kind, QUESTION
    expected = _answer(load_model(checkpoint, dtype=torch.float32), prompt, torch.float32)
    fp8 = Fp8Parts(weights=True, kv_cache=True)
    found = _answer(load_model(checkpoint, dtype=torch.float32, fp8=fp8), prompt, E4M3)
    assert int(expected.argmax()) == int(found.argmax()) == kind
    assert expected.topk(2).values.diff().abs() > 0.5, "anything would do"
    assert (found - expected).abs().max() < 0.1


def _answer(model: CausalLM, prompt: Tensor, pages: torch.dtype) -> Tensor:
    """Log-probabilities [V] after the prompt. In a single layer keys and values depend on no other token, so the
    chunks of the prompt are rows that see themselves alone, and only the question looks back."""
    pool = torch.zeros(LENGTH // PAGE, 1, 2, 1, PAGE, DIM, dtype=pages)
    table = torch.randperm(LENGTH // PAGE, generator=torch.Generator().manual_seed(1)).to(torch.int32)
    everything = torch.arange(LENGTH)
    slots = table[everything // PAGE].long() * PAGE + everything % PAGE
    rows = LENGTH // CHUNK
    starts = torch.arange(rows + 1, dtype=torch.int32) * CHUNK
    lens = torch.full((rows,), CHUNK, dtype=torch.int32)
    model.forward(_batch(prompt, everything, starts, lens, table.view(rows, -1), slots), pool)
    last = everything[-1:]
    end = torch.tensor([0, 1], dtype=torch.int32)
    question = _batch(prompt[-1:], last, end, torch.tensor([LENGTH]), table[None], slots[-1:])
    return torch.log_softmax(model.logits(model.forward(question, pool))[0], dim=-1)


def _batch(
    token_ids: Tensor, positions: Tensor, query_start: Tensor, lens: Tensor, table: Tensor, slots: Tensor
) -> ForwardBatch:
    return ForwardBatch(
        token_ids=token_ids,
        positions=positions,
        query_start=query_start,
        seq_lens=lens.to(torch.int32),
        sampled=query_start[1:].long() - 1,
        groups=(GroupBatch(table, slots),),
    )
