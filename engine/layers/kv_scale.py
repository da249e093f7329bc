"""Scales of an fp8 KV cache: per key head, the largest key and value that the layer can produce at all, over 448.

    |k[i]|, |v[i]| ≤ √H · ‖W[i] ∘ g‖ + |b[i]|      without a norm of the keys: x / rms(x) has length √H (Cauchy-Schwarz)
    |k[i]|         ≤ √D · |g_k[i]|                 with one
    and a rotated pair is no longer than the pair of bounds

From weights alone, so that no value ever has to be clamped, whatever the prompt, and every replica and restart uses the
same scales: no calibration run, nothing to store. A bound is some √H times what is typical, which costs nothing: e4m3
keeps its relative precision over five orders of magnitude, and what it rounds off below is less than a thousandth of
the typical value. (A scale per token and head would have to be written, read and moved with every page.) Called by
`engine.models.build`. Knows no pages.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kernels.e4m3 import E4M3_MAX

_ROOM = 1.125
"""For what rounding the weights and the input to fp8 may add."""


def kv_scale(
    k_weight: Tensor,
    v_weight: Tensor,
    norm: Tensor,
    k_bias: Tensor | None,
    v_bias: Tensor | None,
    k_norm: Tensor | None,
    head_dim: int,
) -> Tensor:
    """[2, Hk] fp32 for the keys and the values; weights [Hk · D, H], norms [H] and [D] fp32, biases [Hk · D]."""
    values = _bound(v_weight, norm, v_bias).view(-1, head_dim)
    keys = _bound(k_weight, norm, k_bias).view(-1, head_dim)
    if k_norm is not None:
        keys = (k_norm.abs() * math.sqrt(head_dim)).expand_as(keys)
    low, high = keys.chunk(2, dim=1)
    largest = torch.stack((torch.hypot(low, high).amax(1), values.amax(1)))
    return (largest * (_ROOM / E4M3_MAX)).clamp_min(torch.finfo(torch.float32).tiny)


def _bound(weight: Tensor, norm: Tensor, bias: Tensor | None) -> Tensor:
    """[rows]: the largest |W[i] · (x ∘ norm) + b[i]| over all x of mean square 1."""
    length: Tensor = torch.linalg.vector_norm(weight.float() * norm, dim=1) * math.sqrt(weight.shape[1])
    return length if bias is None else length + bias.float().abs()
