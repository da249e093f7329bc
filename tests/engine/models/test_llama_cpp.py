"""llama.cpp as a second oracle: the same GGUF file, read and computed by code that shares nothing with ours.

Weights are F32, since it quantises what it multiplies quantised ones with; its cache is in half precision. Prompts are
longer than the length that YaRN stretches.
"""

from __future__ import annotations

import dataclasses
import json
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from engine.bench.peer_servers import llama_cpp
from engine.layers.batch import CausalLM
from engine.models.config_reader import read_config
from engine.models.loader import load_model
from tests.engine.models.oracle import random_prompt
from tests.engine.models.paged import teacher_forced
from tests.gguf_models import write_gguf
from tests.models import GEMMA3_CONFIG, LLAMA_LIKE, gemma3_weights, llama_weights
from tests.tiny_tokenizer import write_gemma_tokenizer, write_llama_tokenizer

MARGIN = 0.1
"""Measured: 0.015 at most."""
NUM_OUTPUTS = 16
FAMILIES = ("llama", "qwen2", "qwen3", "gemma3")


def write(path: Path, family: str, kind: str) -> Path:
    """A whole file, vocabulary included."""
    if family == "gemma3":
        config = GEMMA3_CONFIG | {"vocab_size": write_gemma_tokenizer(path.parent)}
        weights = gemma3_weights(config, seed=2)
    else:
        config = LLAMA_LIKE[family] | {"vocab_size": write_llama_tokenizer(path.parent)}
        config |= {"use_sliding_window": False, "attention_bias": False}
        config |= {"rope_scaling": None} if family == "llama" else {}
        weights = llama_weights(config, seed=7)
    vocabulary = json.loads((path.parent / "tokenizer.json").read_text(encoding="utf-8"))
    write_gguf(path, family, config, weights, kind, vocabulary=vocabulary)
    return path


@dataclass(frozen=True)
class Said:
    """A prompt with what llama.cpp wrote, and the likeliest tokens at the places that it tells of: id → log-probability."""

    ids: list[int]
    at: dict[int, dict[int, float]]


def ask(url: str, prompt: list[int]) -> Said:
    body = {"prompt": prompt, "n_predict": NUM_OUTPUTS, "temperature": 0, "n_probs": 20, "ignore_eos": True}
    request = urllib.request.Request(
        f"{url}/completion",
        json.dumps({**body, "return_tokens": True}).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        found = json.load(answer)
    told: dict[int, dict[int, float]] = {}
    for number, (token, step) in enumerate(
        zip(found["tokens"], found["completion_probabilities"], strict=False)
    ):
        if step["id"] != token:
            break  # halves of characters are left out: from here on places are not known
        told[len(prompt) - 1 + number] = {entry["id"]: entry["logprob"] for entry in step["top_logprobs"]}
    return Said(prompt + found["tokens"], told)


def largest_difference(model: CausalLM, answers: list[Said]) -> float:
    worst = 0.0
    for said in answers:
        found = teacher_forced(model, said.ids)
        for place, top in said.at.items():
            differences = found[place][list(top)] - torch.tensor(list(top.values()))
            worst = max(worst, differences.abs().max().item())
    return worst


@pytest.mark.parametrize("family", FAMILIES)
def test_says_what_llama_cpp_says(tmp_path: Path, family: str) -> None:
    path = write(tmp_path / "m.gguf", family, "F32")
    prompts = [[0, *(10 + token for token in random_prompt(length, 480))] for length in (30, 90, 150)]
    with llama_cpp(path, 1, 1, 200) as server:
        answers = [ask(server.target.base_url.removesuffix("/v1"), prompt) for prompt in prompts]
    assert sum(len(said.at) for said in answers) >= 6
    worst = largest_difference(load_model(path, dtype=torch.float32), answers)
    print(f"{family}: {worst:.3f}")
    assert worst < MARGIN
    config = read_config(path)
    wrong = dataclasses.replace(config, rope_base=config.rope_base * 2)
    assert largest_difference(load_model(path, dtype=torch.float32, config=wrong), answers) > MARGIN
