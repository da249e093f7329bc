"""Head norm, rotary embedding and the KV write in one pass.

Place in the path: layers → here. Knows no model; formula, layout and bytes stand in `kernels/reference.py`.
"""

from __future__ import annotations

from kernels.reference import rope_and_cache

__all__ = ["rope_and_cache"]
