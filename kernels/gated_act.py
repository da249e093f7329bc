"""The gated activation of an MLP.

Place in the path: layers → here. Knows no model; formula, layout and bytes stand in `kernels/reference.py`.
"""

from __future__ import annotations

from kernels.reference import gated_act

__all__ = ["gated_act"]
