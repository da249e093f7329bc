"""Which tile `small_matmul` takes at which shape, and where the library is faster.

Place in the path: layers → here. Knows no kernel but its tiles. Measured shapes stand in `tuned/small_matmul.json`:
rows × columns of the weight and whether gated → number of tokens up to which an entry holds → tile, or null where
cuBLAS wins. Nothing is tuned at run time. An entry needs a whole decode step to back it: a chain of one product over
one x made the tiles for up to 8 tokens look best, and steps with them were slower than with the library.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import triton

from kernels.small_matmul import MAX_ROWS, Tile

__all__ = ["choose_tile"]

_TABLE = Path(__file__).parent / "tuned" / "small_matmul.json"
_PROGRAMS = 256
"""About two programs on each of 132 multiprocessors, all resident at once."""
_LARGE_WEIGHT = 1 << 22
"""Products of smaller weights are over before a launch is: they stay with the library."""
_FEW_TOKENS = 8
"""Steps of so few tokens are faster with the library unless a shape's entry says otherwise."""


def choose_tile(tokens: int, rows: int, columns: int, *, gated: bool) -> Tile | None:
    """The tile for `tokens` tokens through a weight [rows, columns]. None: use the library."""
    if not 2 <= tokens <= MAX_ROWS:
        return None
    measured = _table().get(f"{rows}x{columns}" + (" gated" if gated else ""))
    if measured is None:
        return _fitting(tokens, rows // 2 if gated else rows, columns, gated)
    limit = next(limit for limit in measured if tokens <= limit)
    return measured[limit]


def _fitting(tokens: int, outputs: int, columns: int, gated: bool) -> Tile | None:
    if outputs * columns < _LARGE_WEIGHT or tokens <= _FEW_TOKENS:
        return None
    rows = 64 if outputs >= 64 * _PROGRAMS // 4 or gated else 32
    programs = triton.cdiv(outputs, rows)
    splits = 1 if gated else max(1, min(8, _PROGRAMS // programs, columns // 512))
    return Tile(rows, 128, splits, 4, 3)


@cache
def _table() -> dict[str, dict[int, Tile | None]]:
    entries = json.loads(_TABLE.read_text())["shapes"]
    return {
        shape: {int(limit): Tile(*tile) if tile else None for limit, tile in by_tokens.items()}
        for shape, by_tokens in entries.items()
    }
