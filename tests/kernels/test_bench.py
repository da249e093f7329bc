"""kernels.bench: the floor and the row of a case; the timing itself needs a GPU."""

from __future__ import annotations

from kernels.bench import floor_us, line
from kernels.bench_cases import Case


def test_floor_is_the_larger_of_bytes_and_operations() -> None:
    assert floor_us(Case("a", "b", 4_500_000, 0, ())) == 1
    assert floor_us(Case("a", "b", 4_500_000, 1_500_000_000, ())) == 2


def test_row_names_what_binds_and_leaves_tiny_floors_unjudged() -> None:
    assert line(Case("a", "b", 45_000_000, 0, ()), 12.5) == "| a | b | 12.5 | 10.0 | bytes | 80% |"
    assert line(Case("a", "b", 45, 7_500_000_000, ()), 20) == "| a | b | 20.0 | 10.0 | operations | 50% |"
    assert line(Case("a", "b", 45, 0, ()), 2).endswith("latency |")
