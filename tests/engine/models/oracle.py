"""`transformers` as the oracle: log-probabilities of a checkpoint, teacher-forced, in fp32."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

FP32_MAX = 1e-3
"""|Δ log-probability| that a correct fp32 model stays under at every position, and a wrong one exceeds."""


def oracle_logprobs(directory: Path, ids: Sequence[int]) -> Tensor:
    """[T, V] fp32."""
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([list(ids)])).logits[0], dim=-1)


def random_prompt(length: int, vocab_size: int, seed: int = 3) -> list[int]:
    generator = random.Random(seed)
    return [generator.randrange(vocab_size) for _ in range(length)]


def largest_error(found: Tensor, expected: Tensor) -> float:
    """Over all positions and tokens; not a number counts as infinite."""
    error = (found - expected).abs().max().item()
    return error if error == error else float("inf")


def top_errors(found: Tensor, expected: Tensor, count: int = 20) -> tuple[float, float]:
    """(mean, max) over the oracle's `count` likeliest tokens of every position."""
    top = expected.topk(count, dim=-1).indices
    errors = (found - expected).gather(1, top).abs()
    return errors.mean().item(), errors.max().item()
