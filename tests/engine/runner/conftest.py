"""Fixtures of the runner's tests."""

from __future__ import annotations

import pytest
import torch

from tests.seeds import seed_of_test


@pytest.fixture
def seed() -> int:
    """The test's own, and torch's."""
    value = seed_of_test()
    torch.manual_seed(value)
    return value
