"""CUDA graphs by size: captured once, largest first, in one memory pool; replayed for the next larger size.

Place in the path: the GPU runner asks for a graph of its step's size and runs eagerly where there is none. A
graph replays the same launches on the same addresses, so everything that changes from step to step stands in
static buffers. Knows no model and no step.
"""

from __future__ import annotations

import bisect
import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch

TOKEN_SIZES = (1, 2, 4, *range(8, 257, 8))
"""Sizes of steps in which every row is narrow (decode), and of the sampled rows."""
MIXED_SIZES = (*range(32, 257, 32), *range(320, 1025, 64), *range(1152, 2049, 128))
"""Sizes of steps that also hold prompt tokens. Larger ones run eagerly: launching takes the host some 10 ms, and
the device is busy for longer."""


class GraphSet:
    """Graphs of one function of its size."""

    def __init__(self, sizes: Iterable[int]) -> None:
        self._sizes = sorted(sizes)
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def capture(
        self, pool: torch.cuda._POOL_HANDLE, run: Callable[[int], object], count: int | None = None
    ) -> None:
        """Run each size once eagerly (kernels compile, libraries set themselves up), then capture it. Only
        the `count` largest, if given."""
        with _no_collection():
            for size in self._sizes[::-1][:count]:
                run(size)
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
                    run(size)
                self._graphs[size] = graph

    def replay(self, size: int) -> bool:
        """Replay the smallest graph that holds `size`. False: none was captured."""
        at = bisect.bisect_left(self._sizes, size)
        graph = self._graphs.get(self._sizes[at]) if at < len(self._sizes) else None
        if graph is None:
            return False
        graph.replay()
        return True


@contextmanager
def _no_collection() -> Iterator[None]:
    """Garbage may hold graphs of a runner that is gone, and freeing one while another is captured breaks the capture."""
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
