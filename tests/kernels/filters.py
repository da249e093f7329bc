"""Sampling settings for tests, and who survives them by a plain float64 sort."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kernels.sampling_table import pack_row, pack_rows


@dataclass(frozen=True)
class Filter:
    """One row's settings."""

    temperature: float = 1.0
    min_p: float = 0.0
    top_k: int = 0
    top_p: float = 1.0


FILTERS = [
    Filter(top_k=1),
    Filter(top_k=7),
    Filter(top_k=300, temperature=0.7),
    Filter(top_k=10_000),
    Filter(top_p=0.01),
    Filter(top_p=0.5, temperature=2.0),
    Filter(top_p=0.9),
    Filter(top_p=0.999, temperature=0.3),
    Filter(min_p=0.05),
    Filter(min_p=1.0),
    Filter(min_p=1e-4, temperature=1.7),
    Filter(min_p=0.02, top_k=12, top_p=0.8),
    Filter(top_k=40, top_p=0.95, temperature=0.8),
    Filter(min_p=1e-6, top_p=0.97),
    Filter(),
]


def tensors(rows: list[Filter]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return (
        torch.tensor([row.temperature for row in rows]),
        torch.tensor([row.min_p for row in rows], dtype=torch.float64),
        torch.tensor([row.top_k for row in rows]),
        torch.tensor([row.top_p for row in rows], dtype=torch.float64),
    )


def survivors_oracle(logits: Tensor, row: Filter) -> set[int]:
    """Plain Python: sort by (logit, id), then min_p, top_k, top_p in float64."""
    scaled = (logits / row.temperature).tolist()
    order = sorted(range(len(scaled)), key=lambda i: (-float(logits[i]), i))
    peak = scaled[order[0]]
    kept = [i for i in order if scaled[i] > -math.inf and math.exp(scaled[i] - peak) >= row.min_p]
    if row.top_k:
        kept = kept[: row.top_k]
    weights = [math.exp(scaled[i] - peak) for i in kept]
    total, before = math.fsum(weights), 0.0
    out: set[int] = set()
    for i, weight in zip(kept, weights, strict=True):
        if row.top_p >= 1 or before < row.top_p * total or not out:
            out.add(i)
        before += weight
    return out


def table(rows: list[Filter], **settings: Sequence[int]) -> Tensor:
    """The same rows as lines of the sampling kernels' table, on the default device."""
    lines = [
        pack_row(
            temperature=row.temperature,
            min_p=row.min_p,
            top_k=row.top_k,
            top_p=row.top_p,
            **{name: values[i] for name, values in settings.items()},
        )
        for i, row in enumerate(rows)
    ]
    return pack_rows(lines).to(torch.get_default_device())


def close_enough(found: set[int], logits: Tensor, row: Filter) -> bool:
    """Equal to the oracle, or between its answers for a share of the nucleus 1e-6 to either side."""
    if found == survivors_oracle(logits, row):
        return True
    fewest, most = (
        survivors_oracle(logits, replace(row, top_p=row.top_p * (1 + shift))) for shift in (-1e-6, 1e-6)
    )
    return row.top_p < 1 and fewest <= found <= most
