"""kernels.attention_plan: every query token is in exactly one item per key range, whatever the lengths."""

from __future__ import annotations

import pytest
import torch

from kernels.attention_plan import KEY_STEP, NARROW_ROWS, AttentionPlan, allocate_plan, build_plan

pytestmark = pytest.mark.usefixtures("seed")

HEADS, KV_HEADS, DIM = 8, 2, 16


def _plan(rows: list[tuple[int, int]], window: int | None = None) -> AttentionPlan:
    """`rows` are (queries, length)."""
    starts = torch.tensor([0, *[n for n, _ in rows]]).cumsum(0).to(torch.int32)
    lens = torch.tensor([length for _, length in rows], dtype=torch.int32)
    plan = allocate_plan(
        len(rows) + 1, int(starts[-1]), HEADS, KV_HEADS, DIM, starts.device, window,
        programs=24, wide_rows=32, min_split=64,
    )  # fmt: skip
    plan.narrow.fill_(-7)
    plan.wide.fill_(-7)
    build_plan(plan, starts, lens)
    return plan


def _items(plan: AttentionPlan) -> tuple[list[list[int]], list[list[int]]]:
    narrow, wide = plan.counts.tolist()
    return plan.narrow[:narrow].tolist(), plan.wide[:wide].tolist()


def _random_rows() -> list[tuple[int, int]]:
    rows = []
    for _ in range(37):
        queries = int(torch.randint(0, 60, ()) if torch.rand(()) < 0.4 else torch.randint(0, 5, ()))
        rows.append((queries, queries + int(torch.randint(0, 900, ())) if queries else 0))
    return rows


@pytest.mark.parametrize("window", [None, 100])
def test_items_cover_each_row_once(window: int | None) -> None:
    rows = _random_rows()
    plan = _plan(rows, window)
    narrow, wide = _items(plan)
    first = 0
    for row, (queries, length) in enumerate(rows):
        position = length - queries
        if queries > plan.narrow_tokens:
            tiles = sorted(item[1:] for item in wide if item[0] == row)
            expected = [
                [first + at, min(plan.wide_tokens, queries - at), position + at]
                for at in range(0, queries, plan.wide_tokens)
            ]
            assert tiles == expected
        elif queries:
            splits = [item for item in narrow if item[0] == row]
            low = max(0, position - window + 1) // KEY_STEP * KEY_STEP if window else 0
            assert [item[1:4] for item in splits] == [[first, queries, position]] * len(splits)
            assert [item[6:] for item in splits] == [[number, len(splits)] for number in range(len(splits))]
            bounds = [low, *[item[5] for item in splits]]
            assert [item[4] for item in splits] == bounds[:-1]
            assert bounds[-1] == length
        first += queries
    used = {item[0] for item in narrow} | {item[0] for item in wide}
    assert used == {row for row, (queries, _) in enumerate(rows) if queries}


@pytest.mark.parametrize("window", [None, 100])
def test_a_fixed_plan_cuts_every_row_alike(window: int | None) -> None:
    """Narrow items only, none split, whatever the other rows are."""
    rows = _random_rows()
    starts = torch.tensor([0, *[n for n, _ in rows]]).cumsum(0).to(torch.int32)
    lens = torch.tensor([length for _, length in rows], dtype=torch.int32)
    tokens = int(starts[-1])
    plan = allocate_plan(len(rows), tokens, HEADS, KV_HEADS, DIM, starts.device, window, is_fixed=True).sized(
        len(rows), tokens
    )
    build_plan(plan, starts, lens)
    narrow, wide = _items(plan)
    assert not wide
    assert not plan.has_wide
    assert len(narrow) <= plan.narrow.shape[0]
    for row, (queries, length) in enumerate(rows):
        start, size, expected = length - queries, plan.narrow_tokens, []
        for position in range(start // size * size, length, size) if queries else ():
            end, first = min(position + size, length), int(starts[row]) + position - start
            low = max(0, position - window + 1) // KEY_STEP * KEY_STEP if window else 0
            skip = max(0, start - position)
            expected.append([row, first, end - position, position, low, end, skip, 1])
        assert sorted(item for item in narrow if item[0] == row) == expected


def test_splits_stay_within_capacity_and_reach_the_goal() -> None:
    narrow, _ = _items(_plan([(1, 64 * 100)]))
    assert 9 <= len(narrow) <= 12, "24 programs over 2 key heads, in one wave"
    many, _ = _items(_plan([(1, length) for length in range(1, 300)]))
    assert len(many) <= 299 + 1 + 12


def test_splits_of_a_row_are_about_equal() -> None:
    narrow, _ = _items(_plan([(1, 2100), (1, 700), (2, 650)]))
    for row in range(3):
        sizes = [item[5] - item[4] for item in narrow if item[0] == row]
        assert max(sizes) - min(sizes) < KEY_STEP * len(sizes), sizes


def test_short_rows_are_not_split() -> None:
    narrow, _ = _items(_plan([(1, 1), (2, 64), (1, 63)]))
    assert [item[7] for item in narrow] == [1, 1, 1]


def test_items_name_the_lines_of_a_shared_table() -> None:
    starts, lens = torch.tensor([0, 1, 41], dtype=torch.int32), torch.tensor([9, 60], dtype=torch.int32)
    plan = allocate_plan(7, 41, HEADS, KV_HEADS, DIM, starts.device)
    build_plan(plan, starts, lens, torch.tensor([5, 2], dtype=torch.int32))
    narrow, wide = _items(plan)
    assert [item[0] for item in narrow] == [5]
    assert {item[0] for item in wide} == {2}


def test_all_items_of_a_large_step_fit() -> None:
    rows = [(700, 900), (5, 5), (600, 600)]
    starts = torch.tensor([0, *[n for n, _ in rows]]).cumsum(0).to(torch.int32)
    lens = torch.tensor([length for _, length in rows], dtype=torch.int32)
    plan = allocate_plan(3, 1305, HEADS, KV_HEADS, DIM, starts.device).sized(3, 1305)
    build_plan(plan, starts, lens)
    _, wide = _items(plan)
    assert int(plan.counts[1]) <= plan.wide.shape[0]
    assert sum(item[2] for item in wide) == 1305
    assert max(item[2] for item in wide) == plan.wide_tokens


PAGE = 16


def _sharing_plan(heads: int, groups: list[tuple[int, int]], others: list[tuple[int, int]]) -> AttentionPlan:
    """`groups` are (rows, pages that they begin with), `others` rows as `_plan` takes them. The plan's rows stand in a
    random order, and so do the table's."""
    rows = [
        (1, pages * PAGE + int(torch.randint(1, 150, ())), group)
        for group, (size, pages) in enumerate(groups)
        for _ in range(size)
    ]
    rows += [(queries, length, -1) for queries, length in others]
    rows = [rows[place] for place in torch.randperm(len(rows)).tolist()]
    starts = torch.tensor([0, *[row[0] for row in rows]]).cumsum(0).to(torch.int32)
    lens = torch.tensor([row[1] for row in rows], dtype=torch.int32)
    lines = torch.randperm(len(rows) + 2)[: len(rows)].to(torch.int32)
    table = torch.arange((len(rows) + 2) * 80, dtype=torch.int32).view(-1, 80)
    for line, (_, _, group) in zip(lines.tolist(), rows, strict=True):
        if group >= 0:
            table[line, : groups[group][1]] = -10 - 100 * group - torch.arange(groups[group][1])
    plan = allocate_plan(
        len(rows), int(starts[-1]), heads, KV_HEADS, DIM, starts.device, programs=24, min_split=64
    )
    plan = plan.sized(len(rows), int(starts[-1]))
    for scratch in (plan.narrow, plan.parts):
        scratch.fill_(-7)
    build_plan(plan, starts, lens, lines, table, PAGE)
    assert int(plan.counts[0]) <= plan.narrow.shape[0]
    assert plan.narrow.shape[0] <= plan.partial.shape[0]
    _check_cover(
        plan,
        starts.tolist(),
        lens.tolist(),
        lines.tolist(),
        [groups[row[2]][1] * PAGE if row[2] >= 0 else 0 for row in rows],
    )
    return plan


def _check_cover(
    plan: AttentionPlan, starts: list[int], lens: list[int], lines: list[int], shared: list[int]
) -> None:
    """Every key of a narrow row is in one item; of a row that shares, `parts` names its items in the order of the keys."""
    assert plan.prefixes is not None
    order, narrow = plan.prefixes.order.tolist(), _items(plan)[0]
    used = [0] * len(narrow)
    for row, length in enumerate(lens):
        first, count = starts[row], starts[row + 1] - starts[row]
        if not 0 < count <= plan.narrow_tokens:
            continue
        own, own_parts, shared_first, shared_parts, place = plan.parts[first, :5].tolist()
        if not shared[row]:
            (own, *others) = [at for at, item in enumerate(narrow) if item[3] >= 0 and item[1] == first]
            assert others == list(range(own + 1, own + 1 + len(others)))
            own_parts, shared_parts = 1 + len(others), 0
        end = 0
        for number in range(shared_parts):
            item = narrow[shared_first + number]
            assert item[3] == -1
            assert place < item[2] <= plan.narrow_tokens
            assert order[item[1] + place] == [first, length - 1]
            assert item[4] == end < item[5]
            assert item[6:] == [number, 0]
            end = item[5]
            used[shared_first + number] += 1
        assert end == shared[row] // KEY_STEP * KEY_STEP
        for number in range(own_parts):
            line, token, tokens, position, low, high, split, parts = narrow[own + number]
            assert (line, token, tokens, position) == (lines[row], first, count, length - count)
            assert low == end < high
            assert (split, parts) == (number, 0 if shared_parts else own_parts)
            end = high
            used[own + number] += 1
        assert end == length
    assert used == [1 if item[3] >= 0 else item[2] for item in narrow]


@pytest.mark.parametrize("heads", [4, 6, 8, 10, 14])
def test_rows_that_share_and_rows_that_do_not_cover_their_keys_once(heads: int) -> None:
    """Groups of every size, tiles that are full and tiles that are not, beside prompts and empty rows."""
    sizes = [4, 5, NARROW_ROWS, 7]
    groups = [(size, int(torch.randint(16, 60, ()))) for size in sizes]
    plan = _sharing_plan(heads, groups, [(0, 0), (1, 40), (2, 700), (60, 400), (1, 900), (0, 0), (1, 1)])
    shared = [item for item in _items(plan)[0] if item[3] < 0]
    assert shared == _items(plan)[0][: len(shared)], "the longest come first"


@pytest.mark.parametrize("sizes", [[4], [5], [4] * 9, [5] * 9, [33]])
def test_all_shared_items_fit(sizes: list[int]) -> None:
    plan = _sharing_plan(8, [(size, 40) for size in sizes], [])
    tiles = sum(-(-size // plan.narrow_tokens) for size in sizes)
    assert sum(item[4] == 0 for item in _items(plan)[0] if item[3] < 0) == tiles


def test_few_rows_and_plans_of_one_row_a_tile_share_nothing() -> None:
    device = torch.zeros(1).device
    assert allocate_plan(9, 9, 32, 2, DIM, device).prefixes is None
    assert allocate_plan(9, 9, HEADS, KV_HEADS, DIM, device, 4096).prefixes is None
    assert allocate_plan(9, 9, HEADS, KV_HEADS, DIM, device, is_fixed=True).prefixes is None
    plan = _sharing_plan(8, [], [(1, 600)] * 3)
    assert all(item[3] >= 0 for item in _items(plan)[0])
