"""Attention over pages of keys and values.

Place in the path: layers → here. Knows no model; formula, layout and bytes stand in `kernels/reference.py`.
"""

from __future__ import annotations

from kernels.reference import paged_attention

__all__ = ["paged_attention"]
