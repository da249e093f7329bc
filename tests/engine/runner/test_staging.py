"""engine.runner.staging: what a slot holds is what was put in, however large a step gets."""

from __future__ import annotations

import torch

from engine.core.contract import RowWork
from engine.runner.staging import HostCopies, StepSlot

PINNED = torch.cuda.is_available()


def test_work_is_padded_with_nothing_of_the_step_before() -> None:
    slot = StepSlot(4, 3, pinned=PINNED)
    slot.work([RowWork(9, 3, 2, True), RowWork(1, 0, 5, False), RowWork(2, 7, 1, True)])
    work = slot.work([RowWork(3, 10, 1, True)])
    assert work.tolist() == [[3, 0, 0, 0], [10, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]
    assert slot.work([]).sum() == 0


def test_ints_grow() -> None:
    slot = StepSlot(1, 3, pinned=PINNED)
    offsets, values = list(range(5000)), list(range(5000, 10_000))
    staged = slot.ints(offsets, values)
    assert staged.dtype == torch.int64
    assert staged.tolist() == [offsets, values]
    assert slot.ints([1], [2]).tolist() == [[1], [2]]


def test_fetches_what_the_device_has() -> None:
    slot = StepSlot(4, 3, pinned=PINNED)
    token_ids = torch.tensor([7, -1, 9], dtype=torch.int32)
    slot.fetch(token_ids.cuda() if PINNED else token_ids)
    assert slot.fetched(3) == [7, -1, 9]


def test_fetches_log_probabilities_only_if_there_are_any() -> None:
    slot = StepSlot(4, 3, pinned=PINNED)
    token_ids, logprobs = (
        torch.tensor([7, 8], dtype=torch.int32),
        torch.arange(6, dtype=torch.int32).view(2, 3),
    )
    if PINNED:
        token_ids, logprobs = token_ids.cuda(), logprobs.cuda()
    slot.fetch(token_ids, logprobs)
    assert slot.fetched(2) == [7, 8]
    assert slot.logprobs(2).tolist() == [[0, 1, 2], [3, 4, 5]]
    slot.fetch(token_ids[:1])
    assert slot.fetched(1) == [7]


def test_copies_keep_their_order_shapes_and_types() -> None:
    sent = [torch.arange(6).view(2, 3).int(), torch.rand(4), torch.rand(1, 2).bfloat16()]
    copies = HostCopies([each.cuda() for each in sent] if PINNED else sent).fetched()
    assert [(each.dtype, each.device.type) for each in copies] == [(each.dtype, "cpu") for each in sent]
    assert all(torch.equal(copy, each) for copy, each in zip(copies, sent, strict=True))


def test_copies_are_the_callers_own() -> None:
    sent = torch.ones(3, device="cuda" if PINNED else "cpu")
    copies = HostCopies([sent])
    (copy,) = copies.fetched()
    sent.zero_()
    assert copy.tolist() == [1, 1, 1]


def test_nothing_to_copy() -> None:
    assert HostCopies([]).fetched() == []
