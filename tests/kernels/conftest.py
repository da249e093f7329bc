"""Fixtures of the kernel tests."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def seed() -> int:
    """A fresh seed per test, printed so that a failure can be repeated."""
    value = random.SystemRandom().randrange(2**31)
    print(f"seed={value}")
    torch.manual_seed(value)
    return value


@pytest.fixture(autouse=True)
def _device() -> Iterator[None]:
    """Tensors live on the GPU where there is one; else Triton's interpreter runs the kernels."""
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        yield
