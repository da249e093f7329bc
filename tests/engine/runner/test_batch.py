"""engine.runner.batch: the expanded tensors against loops over the work list."""

from __future__ import annotations

import random

import torch

from engine.core.contract import BlockAppend, KVGroup, KVLayout, RowInit, RowWork
from engine.messages import SamplingParams
from engine.runner.batch import expand
from engine.runner.tables import RowTables

SAMPLING = SamplingParams(seed=0, max_tokens=1)
LAYOUT = KVLayout(block_size=4, num_blocks=99, groups=(KVGroup((0,), None), KVGroup((1,), 6)))


def _tables(lens: dict[int, int]) -> tuple[RowTables, dict[int, list[int]], dict[int, list[list[int]]]]:
    """Rows with random tokens and pages; the first two pages of the windowed group are gone."""
    tables = RowTables(8, 64, LAYOUT, torch.device("cpu"))
    tokens = {row: [random.randrange(1000) for _ in range(length)] for row, length in lens.items()}
    pages = {}
    for row, length in lens.items():
        count = -(-length // 4)
        pages[row] = [[random.randrange(99) for _ in range(count)] for _ in LAYOUT.groups]
        if count > 3:
            pages[row][1][:2] = [-1, -1]
        tables.add_row(RowInit(row, tokens[row], length, SAMPLING, tuple(map(tuple, pages[row]))))
    return tables, tokens, pages


def test_mixed_step_matches_loops() -> None:
    lens = {5: 1, 2: 17, 7: 40, 0: 33}
    tables, tokens, pages = _tables(lens)
    work = (RowWork(5, 0, 1, True), RowWork(7, 39, 1, True), RowWork(0, 3, 5, False), RowWork(2, 0, 17, True))
    inputs = expand(work, tables)
    forward = inputs.forward
    flat = [(item.row, item.start + i) for item in work for i in range(item.num_tokens)]
    assert forward.token_ids.tolist() == [tokens[row][position] for row, position in flat]
    assert forward.positions.tolist() == [position for _, position in flat]
    assert forward.query_start.tolist() == [0, 1, 2, 7, 24]
    assert forward.seq_lens.tolist() == [1, 40, 8, 17]
    assert forward.sampled.tolist() == [0, 1, 23]
    assert inputs.sampled_rows == (5, 7, 2)
    assert inputs.sampled_lens == (1, 40, 17)
    assert forward.token_ids.dtype == forward.positions.dtype == forward.sampled.dtype == torch.int64
    assert forward.query_start.dtype == forward.seq_lens.dtype == torch.int32
    for group, found in enumerate(forward.groups):
        assert found.block_table.dtype == torch.int32
        expected = []
        for row, position in flat:
            page = pages[row][group][position // 4]
            expected.append(-1 if page < 0 else page * 4 + position % 4)
        assert found.slots.tolist() == expected
        for i, item in enumerate(work):
            count = -(-(item.start + item.num_tokens) // 4)
            assert found.block_table[i, :count].tolist() == pages[item.row][group][:count]


def test_decode_step_takes_the_short_way_to_the_same_tensors() -> None:
    tables, tokens, _ = _tables({1: 9, 3: 30})
    inputs = expand((RowWork(1, 8, 1, True), RowWork(3, 29, 1, False)), tables).forward
    assert inputs.token_ids.tolist() == [tokens[1][8], tokens[3][29]]
    assert inputs.query_start.tolist() == [0, 1, 2]
    assert inputs.sampled.tolist() == [0]


def test_written_tokens_and_appended_pages_are_seen_by_the_next_step() -> None:
    tables, _, pages = _tables({1: 4, 3: 8})
    tables.write_sampled(torch.tensor([1, 3]), torch.tensor([4, 8]), torch.tensor([77, 88]))
    tables.append_blocks((BlockAppend(1, 0, (50,)), BlockAppend(1, 1, (51,)), BlockAppend(3, 0, (52, 53))))
    tables.append_blocks((BlockAppend(3, 1, (54,)),))
    forward = expand((RowWork(1, 4, 1, True), RowWork(3, 8, 1, True)), tables).forward
    assert forward.token_ids.tolist() == [77, 88]
    assert forward.groups[0].slots.tolist() == [50 * 4, 52 * 4]
    assert forward.groups[1].slots.tolist() == [51 * 4, 54 * 4]
    assert forward.groups[0].block_table[1, :3].tolist() == [*pages[3][0], 52]


def test_a_reused_row_forgets_its_former_pages() -> None:
    tables, _, _ = _tables({1: 40})
    tables.add_row(RowInit(1, [9, 9], 2, SAMPLING, ((7,), (8,))))
    tables.append_blocks((BlockAppend(1, 0, (5,)),))
    forward = expand((RowWork(1, 0, 2, True),), tables).forward
    assert forward.groups[0].slots.tolist() == [28, 29]
    assert tables.blocks[0, 1, :2].tolist() == [7, 5]
