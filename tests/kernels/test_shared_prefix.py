"""kernels.shared_prefix against a search in plain Python, on tables that agree in every way they may."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from kernels.shared_prefix import LEAST_KEYS, LEAST_ROWS, allocate_prefixes, find_prefixes, most_tiles

pytestmark = pytest.mark.usefixtures("seed")

PAGE, STEP = 16, 64
LEAST = LEAST_KEYS // PAGE


@dataclass
class Rows:
    """What a step's rows look like."""

    lines: list[list[int]]
    """Page ids of each."""
    counts: list[int]
    lengths: list[int]

    def full(self, row: int) -> int:
        return (self.lengths[row] - 1) // PAGE if self.counts[row] == 1 else 0

    def common(self, row: int, other: int) -> int:
        """Pages both begin with, in front of either's current token."""
        number = 0
        while number < min(self.full(row), self.full(other)):
            if self.lines[row][number] != self.lines[other][number]:
                break
            number += 1
        return number


def _found(rows: Rows, *, twice: bool = False) -> list[list[int]]:
    """Shared keys, size, place, first row and start of each row; the size is 0 where nothing is shared."""
    number = len(rows.lines)
    starts = torch.tensor([0, *rows.counts]).cumsum(0).to(torch.int32)
    order = torch.randperm(number + 2)[:number].to(torch.int32)
    table = torch.full((number + 2, max(map(len, rows.lines)) + 1), -1, dtype=torch.int32)
    for line, ids in zip(order.tolist(), rows.lines, strict=True):
        table[line, : len(ids)] = torch.tensor(ids, dtype=torch.int32)
    prefixes = allocate_prefixes(number + 3, starts.device)
    for _ in range(1 + twice):
        prefixes.rows.fill_(-7)
        lens = torch.tensor(rows.lengths, dtype=torch.int32)
        find_prefixes(prefixes, starts, lens, order, table, PAGE, STEP)
    assert not prefixes.arrived.any()
    return [line[:5] if line[0] else [0] * 5 for line in prefixes.rows[:number].tolist()]


def _expected(rows: Rows) -> list[list[int]]:
    groups: dict[tuple[int, int], list[int]] = {}
    for row in range(len(rows.lines)):
        anchor, name = LEAST, None
        while anchor <= rows.full(row):
            page = rows.lines[row][anchor - 1]
            same = [
                other
                for other in range(len(rows.lines))
                if rows.full(other) >= anchor and rows.lines[other][anchor - 1] == page
            ]
            if len(same) < LEAST_ROWS:
                break
            name = (same[0], anchor)
            anchor *= 2
        if name is not None and rows.common(row, name[0]) >= name[1]:
            groups.setdefault(name, []).append(row)
    expected = [[0] * 5 for _ in rows.lines]
    start = 0
    for (reference, _), members in sorted(groups.items()):
        shared = min(rows.common(row, reference) for row in members) * PAGE // STEP * STEP
        for place, row in enumerate(members if len(members) >= LEAST_ROWS else []):
            expected[row] = [shared, len(members), place, members[0], start]
        start += len(members)
    return expected


def _random_rows(number: int) -> Rows:
    """Rows of a tree: each begins as another one does, up to a page or a step's bound or somewhere."""
    ids = iter(range(10**6))
    lines: list[list[int]] = []
    counts, lengths = [], []
    for row in range(number):
        pages = int(torch.randint(1, 60, ()))
        old = lines[int(torch.randint(0, row, ()))] if row and torch.rand(()) < 0.85 else []
        keep = int(torch.randint(0, len(old) + 1, ())) if torch.rand(()) < 0.4 else len(old) // 4 * 4
        line = old[:keep] + [next(ids) for _ in range(pages)]
        if torch.rand(()) < 0.1:
            line[int(torch.randint(0, len(line), ()))] = next(ids)
        lines.append(line)
        used = int(torch.randint(max(1, len(line) - 3), len(line) + 1, ()))
        lengths.append(used * PAGE - int(torch.randint(0, PAGE, ())) if torch.rand(()) < 0.7 else used * PAGE)
        counts.append(1 if torch.rand(()) < 0.85 else int(torch.randint(0, 4, ())))
        lengths[-1] = max(lengths[-1], counts[-1]) if counts[-1] else 0
    return Rows(lines, counts, lengths)


@pytest.mark.parametrize("number", [3, 4, 19, 20, 21, 70])
def test_equals_a_search_in_plain_python(number: int) -> None:
    rows = _random_rows(number)
    assert _found(rows, twice=True) == _expected(rows)


def _decode(lines: list[list[int]], behind: int = 1) -> Rows:
    """Every row's current token is the `behind`-th of its last page."""
    return Rows(lines, [1] * len(lines), [(len(line) - 1) * PAGE + behind for line in lines])


def _shared(rows: Rows) -> list[int]:
    found = _found(rows)
    assert found == _expected(rows)
    return [line[0] for line in found]


def _own(row: int, pages: int) -> list[int]:
    return [1000 * (row + 1) + number for number in range(pages)]


def test_all_rows_share_to_the_last_whole_step() -> None:
    lines = [[*range(30), *_own(row, 1 + row)] for row in range(9)]
    assert _shared(_decode(lines)) == [448] * 9


@pytest.mark.parametrize(("pages", "expected"), [(15, 0), (16, 256), (19, 256), (20, 320)])
def test_at_the_bounds(pages: int, expected: int) -> None:
    assert _shared(_decode([[*range(pages), *_own(row, 1)] for row in range(4)])) == [expected] * 4
    # The page that the current token ends is not shared: its row still writes it.
    same = _decode([list(range(pages + 1)) for _ in range(4)], behind=PAGE)
    assert _shared(same) == [expected] * 4


def test_three_rows_share_nothing() -> None:
    assert _shared(_decode([[*range(40), 100 + row] for row in range(3)])) == [0] * 3


def test_groups_stand_between_each_other() -> None:
    lines = [[*_own(90 + row % 2, 20 + 4 * (row % 2)), *_own(row, 2)] for row in range(10)]
    found = _found(_decode(lines))
    assert [line[0] for line in found] == [320, 384] * 5
    assert [line[2] for line in found] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert [line[3] for line in found] == [0, 1] * 5
    assert {line[4] for line in found} == {0, 5}


def test_of_nested_beginnings_the_deepest_is_taken() -> None:
    """The row that leaves early does not keep the others from the rest, though it is the first."""
    lines = [[*range(16), *_own(0, 9)], *[[*range(70), *_own(row, 2)] for row in range(1, 6)]]
    assert _shared(_decode(lines)) == [0, 1088, *[1088] * 4]
    others = [[*range(16), *_own(row, 9)] for row in range(6, 10)]
    assert _shared(_decode(lines + others)) == [256, *[1088] * 5, *[256] * 4]


def test_an_equal_anchor_proves_nothing_about_the_pages_before() -> None:
    lines = [[*range(20), *_own(row, 2)] for row in range(6)]
    lines[3][4] = 777
    assert _shared(_decode(lines)) == [320, 320, 320, 0, 320, 320]
    lines[0][2] = 778
    assert _shared(_decode(lines)) == [0] * 6, "compared with the first row, which is alone now"


def test_only_rows_of_one_token_take_part() -> None:
    rows = _decode([[*range(30), *_own(row, 3)] for row in range(8)])
    rows.counts[2], rows.counts[5] = 3, 0
    rows.lengths[5] = 0
    assert _shared(rows) == [448, 448, 0, 448, 448, 0, 448, 448]


def test_long_lines_are_compared_to_their_end() -> None:
    lines = [[*range(1200), *_own(row, 2)] for row in range(4)]
    assert _shared(_decode(lines)) == [1200 * PAGE] * 4
    lines[2][1100] = 0
    assert _shared(_decode(lines)) == [1100 * PAGE // STEP * STEP] * 4


@pytest.mark.parametrize("tile_rows", [2, 3, 4, 5, 8, 16])
def test_most_tiles_is_what_the_worst_groups_need(tile_rows: int) -> None:
    worst = [0] * 60
    for rows in range(LEAST_ROWS, 60):
        worst[rows] = max(worst[rows - size] + -(-size // tile_rows) for size in range(LEAST_ROWS, rows + 1))
    assert all(most_tiles(rows, tile_rows) >= worst[rows] for rows in range(60))
    assert all(most_tiles(rows, tile_rows) <= worst[rows] + 2 for rows in range(60))
