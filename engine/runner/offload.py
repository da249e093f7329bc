"""The host's tier of pages: memory of its own, and the copies between it and the page pool.

Place in the path: a runner calls `move` first in every step. A page lies together in both places, so each is one
copy; on a GPU the copies are queued on the step's own stream and the memory is pinned, so that they are over before
the step's work and after everything launched before. Knows no rows: who owns a page is the core's business.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.core.contract import ScheduleOutput

_SLAB_BYTES = 2**30
"""Torch rounds pinned memory up to a power of two: in slabs of one, next to nothing is lost."""


class HostPages:
    """`num_pages` pages shaped like those of `pool`, [layers, 2, kv_heads, block_size, head_dim]."""

    def __init__(self, num_pages: int, pool: Tensor) -> None:
        page_bytes = pool[0].numel() * pool.element_size()
        self._per_slab = max(1, _SLAB_BYTES // page_bytes)
        # On a CPU memory that was never written to is not taken from the system.
        self._slabs = [
            torch.empty(
                (min(self._per_slab, num_pages - first), *pool.shape[1:]),
                dtype=pool.dtype,
                pin_memory=pool.is_cuda,
            )
            for first in range(0, num_pages, self._per_slab)
        ]

    def move(self, schedule: ScheduleOutput, pool: Tensor) -> None:
        """Carry out the step's copies in the order that the contract gives."""
        for move in schedule.offloads:
            self._page(move.host_page).copy_(pool[move.page], non_blocking=True)
        for move in schedule.restores:
            pool[move.page].copy_(self._page(move.host_page), non_blocking=True)

    def _page(self, host_page: int) -> Tensor:
        return self._slabs[host_page // self._per_slab][host_page % self._per_slab]
