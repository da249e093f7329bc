"""Repetition, presence and frequency penalties over a row's history.

Place in the path: engine.runner.sampler → here. Knows no request; formula, layout and bytes stand in
`kernels/reference_sampling.py`.
"""

from __future__ import annotations

from kernels.reference_sampling import apply_penalties

__all__ = ["apply_penalties"]
