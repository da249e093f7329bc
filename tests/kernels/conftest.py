"""Fixtures of the kernel tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.seeds import seed_of_test


@pytest.fixture
def seed() -> int:
    """The test's own, and torch's."""
    value = seed_of_test()
    torch.manual_seed(value)
    return value


@pytest.fixture(autouse=True)
def _device() -> Iterator[None]:
    """Tensors live on the GPU where there is one; else Triton's interpreter runs the kernels."""
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        yield
