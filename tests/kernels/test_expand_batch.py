"""kernels.expand_batch against a loop over the work list."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kernels.expand_batch import ExpandedBatch, allocate_batch, expand_batch, write_sampled

pytestmark = pytest.mark.usefixtures("seed")

TABLE_ROWS, POSITIONS, GROUPS, BLOCK = 9, 90, 3, 16


def _tables() -> tuple[Tensor, Tensor]:
    tokens = torch.randint(1, 1000, (TABLE_ROWS, POSITIONS + 1), dtype=torch.int32)
    blocks = torch.randint(0, 500, (GROUPS, TABLE_ROWS, -(-POSITIONS // BLOCK)), dtype=torch.int32)
    blocks[1, :, 0] = -1
    return tokens, blocks


def _expand(work: list[tuple[int, int, int, bool]], num_tokens: int, max_rows: int = 7) -> ExpandedBatch:
    tokens, blocks = _tables()
    columns = torch.zeros(4, max_rows, dtype=torch.int32)
    for at, item in enumerate(work):
        columns[:, at] = torch.tensor(item, dtype=torch.int32)
    batch = allocate_batch(max_rows, 300, GROUPS, tokens.device)
    for buffer in (
        batch.token_ids,
        batch.positions,
        batch.slots,
        batch.query_start,
        batch.seq_lens,
        batch.sampled,
    ):
        buffer.fill_(-77)
    expand_batch(batch, columns, tokens, blocks, num_tokens, BLOCK)

    expected = [
        (row, position, int(tokens[row, position]))
        for row, start, count, _ in work
        for position in range(start, start + count)
    ]
    padding = num_tokens - len(expected)
    assert batch.token_ids[:num_tokens].tolist() == [token for _, _, token in expected] + [0] * padding
    assert batch.positions[:num_tokens].tolist() == [position for _, position, _ in expected] + [0] * padding
    for group in range(GROUPS):
        pages = [int(blocks[group, row, position // BLOCK]) for row, position, _ in expected]
        slots = [
            page * BLOCK + position % BLOCK if page >= 0 else -1
            for page, (_, position, _) in zip(pages, expected, strict=True)
        ]
        assert batch.slots[group, :num_tokens].tolist() == slots + [-1] * padding
    assert (batch.token_ids[num_tokens:] == -77).all(), "wrote past the graph's size"
    return batch


def test_mixed_work() -> None:
    work = [(4, 10, 1, True), (0, 0, 1, False), (7, 89, 1, True), (2, 3, 40, False), (5, 16, 50, True)]
    batch = _expand(work, num_tokens=128)
    assert batch.query_start.tolist() == [0, 1, 2, 3, 43, 93, 93, 93]
    assert batch.seq_lens.tolist() == [11, 1, 90, 43, 66, 0, 0]
    assert batch.sampled.tolist() == [0, 2, 92, 0, 0, 0, 0]
    assert batch.sampled_rows.tolist() == [4, 7, 5, -1, -1, -1, -1]
    assert batch.sampled_lens.tolist() == [11, 90, 66, 0, 0, 0, 0]


def test_random_work() -> None:
    rows = torch.randperm(TABLE_ROWS)[:6].tolist()
    work = []
    for row in rows:
        count = int(torch.randint(1, 40, ()))
        work.append((row, int(torch.randint(0, POSITIONS - count, ())), count, bool(torch.rand(()) < 0.5)))
    batch = _expand(work, num_tokens=250)
    sampled = [(row, start + count) for row, start, count, samples in work if samples]
    assert batch.sampled_rows.tolist()[: len(sampled)] == [row for row, _ in sampled]
    assert batch.sampled_lens.tolist()[: len(sampled)] == [length for _, length in sampled]


def test_no_work_is_all_padding() -> None:
    batch = _expand([], num_tokens=8)
    assert batch.query_start.tolist() == [0] * 8
    assert batch.sampled_rows.tolist() == [-1] * 7


def test_write_sampled_skips_padding_and_writes_real_tokens_only() -> None:
    tokens, _ = _tables()
    before = tokens.clone()
    rows = torch.tensor([3, 8, -1], dtype=torch.int32)
    write_sampled(
        tokens, rows, torch.tensor([5, POSITIONS, 0], dtype=torch.int32), torch.tensor([11, 12, 13])
    )
    before[3, 5], before[8, POSITIONS] = 11, 12
    assert torch.equal(tokens, before)
