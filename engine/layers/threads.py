"""How many threads a piece of work on the CPU is worth.

Torch's threads sleep between parallel regions (the supervisor asks for it: on shared cores spinning threads keep each
other from running), and waking one costs some 70 µs, as much as half of one projection of a small model for one
token. So a step of few tokens runs in one thread, and what is large even then asks for all: measured on two cores,
the four projections of Gemma 3 270M's 18 layers take 14 ms for one token with one thread or two, the head 11 and 6.
Knows nothing of what is computed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

FEW_TOKENS = 32
"""Steps of at most this many tokens have no operation but the large products that gains by threads."""
_WORTH_WAKING = 40_000_000
_READING = 12
"""What reading a weight costs, in multiplications by it."""


def is_large(num_weights: int, num_rows: int) -> bool:
    """Whether a product takes some 0.3 ms or more in one thread."""
    return num_weights * (num_rows + _READING) >= _WORTH_WAKING


@contextlib.contextmanager
def use_threads(count: int) -> Iterator[None]:
    """For this thread's operations until the end of the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
