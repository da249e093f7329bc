"""Rotary position tables: cos | sin of every position, for `kernels.rope_and_cache`.

Computed once at load, in fp32 and in the order of operations that checkpoints were trained with: at
position 100,000 another order is off by a hundredth of a turn. Knows no layers; the decoder definition
decides which layers share a table.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from engine.models.model_config import RopeScaling


def rope_table(inv_freq: Tensor, num_positions: int, attention_factor: float = 1.0) -> Tensor:
    """[num_positions, D] fp32: cosines in the first half, sines in the second, times a factor. inv_freq is [D / 2]."""
    positions = torch.arange(num_positions, dtype=torch.float32, device=inv_freq.device)
    angles = torch.outer(positions, inv_freq)
    return torch.cat((angles.cos(), angles.sin()), dim=-1) * attention_factor


def inverse_frequencies(
    head_dim: int, base: float, scaling: RopeScaling, divisors: tuple[float, ...] = ()
) -> Tensor:
    """[head_dim / 2] fp32, scaled. `divisors` come from checkpoints that store their scaling as numbers."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    plain = 1.0 / (base**exponents)
    if divisors:
        return plain / torch.tensor(divisors, dtype=torch.float32)
    if scaling.kind == "linear":
        return plain / scaling.factor
    if scaling.kind == "llama3":
        return _llama3(plain, scaling)
    if scaling.kind == "yarn":
        return _yarn(plain, head_dim, base, scaling)
    return plain


def _llama3(plain: Tensor, scaling: RopeScaling) -> Tensor:
    """Long waves are slowed by `factor`, short ones kept, those between blended linearly in frequency."""
    turns = scaling.original_max_positions * plain / (2 * math.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    keep = ((turns - scaling.low_freq_factor) / span).clamp(0.0, 1.0)
    return (1 - keep) * plain / scaling.factor + keep * plain


def _yarn(plain: Tensor, head_dim: int, base: float, scaling: RopeScaling) -> Tensor:
    """Long waves are slowed by `factor`, short ones kept, those between blended linearly in their index."""

    def index_of(turns: float) -> float:
        # The (fractional) frequency that makes so many turns over the original length.
        length = scaling.original_max_positions
        return head_dim * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = index_of(scaling.beta_fast), index_of(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    index = torch.arange(head_dim // 2, dtype=torch.float32)
    slowed = ((index - low) / max(high - low, 0.001)).clamp(0.0, 1.0)
    return slowed * plain / scaling.factor + (1 - slowed) * plain
