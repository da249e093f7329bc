"""kernels.small_tiles: every entry of the table can be launched, and every shape finds an answer."""

from __future__ import annotations

import pytest

from kernels import small_tiles
from kernels.small_matmul import MAX_ROWS
from kernels.small_tiles import choose_tile

SHAPES_8B = [
    (6144, 4096, False),
    (4096, 4096, False),
    (28672, 4096, True),
    (4096, 14336, False),
    (128256, 4096, False),
]


@pytest.mark.parametrize("tokens", [0, 1, MAX_ROWS + 1, 300])
def test_other_sizes_of_step_are_left_alone(tokens: int) -> None:
    assert all(choose_tile(tokens, rows, columns, gated=gated) is None for rows, columns, gated in SHAPES_8B)


def test_measured_entries_cover_every_size_and_can_be_launched() -> None:
    table = small_tiles._table()
    assert table
    for shape, by_tokens in table.items():
        rows, columns = (int(side) for side in shape.removesuffix(" gated").split("x"))
        gated = shape.endswith(" gated")
        assert list(by_tokens) == sorted(by_tokens)
        assert list(by_tokens)[-1] == MAX_ROWS
        for tokens in range(2, MAX_ROWS + 1):
            tile = choose_tile(tokens, rows, columns, gated=gated)
            if tile is not None:
                assert columns % (tile.columns * tile.splits) == 0
                assert tile.splits == 1 or not gated


def test_an_unknown_shape_is_cut_to_fill_the_device() -> None:
    for rows, columns, gated in [(5120, 5120, False), (1024, 8192, False), (18944 * 2, 3584, True)]:
        tile = choose_tile(16, rows, columns, gated=gated)
        assert tile is not None
        assert choose_tile(8, rows, columns, gated=gated) is None
        programs = -(-(rows // 2 if gated else rows) // tile.rows) * tile.splits
        assert programs >= 128, (rows, columns, tile)


def test_small_weights_stay_with_the_library() -> None:
    assert choose_tile(16, 640, 640, gated=False) is None
