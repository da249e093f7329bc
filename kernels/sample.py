"""The next token of each row: temperature, min_p, top-k, top-p, exponential race.

Place in the path: engine.runner.sampler → here. Knows no request; formula, layout and bytes stand in
`kernels/reference_sampling.py`.
"""

from __future__ import annotations

from kernels.reference_sampling import sample, survivors

__all__ = ["sample", "survivors"]
