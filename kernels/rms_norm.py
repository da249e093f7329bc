"""RMS normalisation with the residual addition in front.

Place in the path: layers → here. Knows no model; formula, layout and bytes stand in `kernels/reference.py`.
"""

from __future__ import annotations

from kernels.reference import rms_norm

__all__ = ["rms_norm"]
