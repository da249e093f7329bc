"""Fixtures of the runner's tests."""

from __future__ import annotations

import random

import pytest
import torch


@pytest.fixture
def seed() -> int:
    """A fresh seed per test, printed so that a failure can be repeated."""
    value = random.SystemRandom().randrange(2**31)
    print(f"seed={value}")
    torch.manual_seed(value)
    return value
