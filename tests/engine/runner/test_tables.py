"""engine.runner.tables: what a row may hold. What the tensors hold is in test_batch.py."""

from __future__ import annotations

import pytest
import torch

from engine.core.contract import KVGroup, KVLayout, RowInit
from engine.messages import SamplingParams
from engine.runner.tables import RowTables

SAMPLING = SamplingParams(seed=0, max_tokens=1)


def _tables() -> RowTables:
    return RowTables(2, 16, KVLayout(16, 9, (KVGroup((0,), None),)), torch.device("cpu"))


def test_the_longest_sequence_and_its_sampled_token_fit() -> None:
    tables = _tables()
    tables.add_row(RowInit(1, list(range(16)), 3, SAMPLING, ((4,),)))
    tables.write_sampled(torch.tensor([1]), torch.tensor([16]), torch.tensor([5]))
    assert tables.tokens[1].tolist() == [*range(16), 5]
    assert not tables.tokens[0].any()


def test_a_longer_sequence_is_a_bug_of_the_core() -> None:
    with pytest.raises(AssertionError):
        _tables().add_row(RowInit(0, list(range(17)), 3, SAMPLING, ((4,),)))


def test_page_lists_must_match_the_groups() -> None:
    with pytest.raises(AssertionError):
        _tables().add_row(RowInit(0, [1], 1, SAMPLING, ((4,), (5,))))
