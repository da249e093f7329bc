"""engine.layers.threads: the count holds for the block, and what is large."""

from __future__ import annotations

import pytest
import torch

from engine.layers.threads import is_large, use_threads


def test_the_count_holds_for_the_block_even_if_it_fails() -> None:
    before = torch.get_num_threads()
    counts = []

    def fail() -> None:
        with use_threads(before + 1):
            counts.append(torch.get_num_threads())
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert counts == [before + 1]
    assert torch.get_num_threads() == before


def test_a_head_is_large_for_one_row_and_a_projection_for_many() -> None:
    assert is_large(262_144 * 640, 1)
    assert not is_large(1536 * 640, 8)
    assert is_large(1536 * 640, 128)
