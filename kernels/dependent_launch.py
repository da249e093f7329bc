"""Kernels that begin while the one in front still runs (programmatic dependent launch), and what they may do early.

Place in the path: the kernels of a decode step → here. Knows no kernel. A decode step is a chain of short kernels
between which the memory would stand idle for 2 to 5 µs each. A kernel launched with `pdl_options` may begin as soon as
every program of the one in front has called `launch_dependents`, and must call `wait_for_front` before it touches
anything that the step computes: after it, all earlier kernels are complete and their stores visible. Before it, a
kernel may read what no kernel of the step writes: weights, the first of them into registers. (Prefetching more of them
into the second-level cache lost up to a fifth: the requests come while the kernel in front still needs the memory.)

Every kernel launched with `pdl_options` must wait in every program: what comes after it relies on that. Kernels that
hold much of a multiprocessor launch their dependents after their own wait, so that no more than two such kernels
share the device; small ones launch theirs at once.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

__all__ = ["launch_dependents", "pdl_options", "wait_for_front"]


def pdl_options(tensor: Tensor) -> dict[str, bool]:
    """Launch options for a kernel over `tensor`: none where Triton interprets."""
    return {"launch_pdl": True} if tensor.is_cuda else {}


@triton.jit
def wait_for_front(PDL: tl.constexpr):
    if PDL:
        tl.extra.cuda.gdc_wait()


@triton.jit
def launch_dependents(PDL: tl.constexpr):
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
