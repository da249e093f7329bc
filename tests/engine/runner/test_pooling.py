"""Embeddings of both runners against `transformers`' hidden states, for every family, in one piece and in chunks."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from engine.messages import PoolingKind, SamplingParams
from engine.models.loader import load_model
from engine.runner.gpu import GPURunner
from tests.engine.models.oracle import random_prompt
from tests.engine.runner.driver import Driver, layout_of, make_runner
from tests.models import write_tiny_gemma3, write_tiny_llama

FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "gemma3")
KINDS: tuple[PoolingKind, ...] = ("last", "mean")
LENGTHS = (1, 5, 33, 100)


@pytest.fixture(scope="module", params=FAMILIES)
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pooling") / request.param
    if request.param == "gemma3":
        return write_tiny_gemma3(folder)
    return write_tiny_llama(folder, family=request.param)


def _oracle(checkpoint: Path, prompts: list[list[int]], kind: PoolingKind) -> list[torch.Tensor]:
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        states = [model.model(torch.tensor([prompt])).last_hidden_state[0] for prompt in prompts]
    return [state[-1] if kind == "last" else state.mean(0) for state in states]


def _found(driver: Driver, prompts: list[list[int]], kind: PoolingKind, chunk: int) -> list[torch.Tensor]:
    """All prompts in the same steps, beside a row that answers."""
    driver.add(len(prompts), [3, 4, 5], SamplingParams(seed=1, max_tokens=50, temperature=0.0))
    for row, prompt in enumerate(prompts):
        driver.add(row, prompt, SamplingParams(seed=0, max_tokens=1, pooling=kind))
    vectors: dict[int, torch.Tensor] = {}
    while len(vectors) < len(prompts):
        open_rows = [row for row in driver.rows if row not in vectors]
        driver.launch(dict.fromkeys(open_rows, chunk))
        result = driver.collect()
        for row, raw in result.embeddings.items():
            vectors[row] = torch.tensor(array("f", raw))
            assert row not in result.tokens
            assert row not in result.failures
    assert len(driver.rows[len(prompts)].outputs) >= 1, "the row that answers went on"
    return [vectors[row] for row in range(len(prompts))]


@pytest.mark.parametrize("kind", KINDS)
def test_equals_transformers(checkpoint: Path, kind: PoolingKind, seed: int) -> None:
    model = load_model(checkpoint, dtype=torch.float32)
    prompts = [random_prompt(length, model.config.vocab_size, seed + length) for length in LENGTHS]
    expected = _oracle(checkpoint, prompts, kind)
    for chunk in (1000, 16):
        runner = make_runner(model, layout_of(model))
        found = _found(Driver(runner, layout_of(model), seed), prompts, kind, chunk)
        runner.close()
        for ours, theirs in zip(found, expected, strict=True):
            assert (ours - theirs).abs().max() < 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_the_gpu_runner_gives_the_same(tmp_path: Path, kind: PoolingKind, seed: int) -> None:
    checkpoint = write_tiny_llama(tmp_path)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = load_model(checkpoint, dtype=torch.float32, device=device)
    layout, config = layout_of(model), model.config
    shape = (layout.num_blocks, len(layout.groups[0].layer_ids), 2, config.num_kv_heads, 16, config.head_dim)
    runner = GPURunner(
        model,
        torch.full(shape, float("nan"), device=device),
        layout,
        max_num_seqs=4,
        max_model_len=64,
        max_num_batched_tokens=64,
        dtype=torch.float32,
    )
    if device.type == "cuda":
        runner.capture()
    prompts = [random_prompt(length, config.vocab_size, seed + length) for length in (2, 19)]
    found = _found(Driver(runner, layout, seed), prompts, kind, 8)  # type: ignore[arg-type]  # launches and collects
    for ours, theirs in zip(found, _oracle(checkpoint, prompts, kind), strict=True):
        assert (ours - theirs).abs().max() < 1e-3
