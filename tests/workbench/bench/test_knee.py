"""The knee by its stated rule, on curves whose distances can be had by hand."""

from __future__ import annotations

from workbench.bench.knee import find_knee


def test_the_corner_of_a_hockey_stick() -> None:
    # Rates to 0…1: .25 .5 .75; TTFT to 0…1: 0 0.1 0.2. Below the diagonal: 0.25, 0.4, 0.55.
    assert find_knee([(0, 100), (25, 100), (50, 200), (75, 300), (100, 1100)]) == 75
    # The same but for a queue that has begun at 75: 0.25, 0.4, 0.05.
    assert find_knee([(0, 100), (25, 100), (50, 200), (75, 800), (100, 1100)]) == 50


def test_the_order_of_the_points_does_not_matter() -> None:
    assert find_knee([(100, 1100), (0, 100), (75, 300), (25, 100), (50, 200)]) == 75


def test_there_is_none_without_a_threefold_rise() -> None:
    assert find_knee([(1, 100), (2, 100), (3, 100), (4, 299)]) is None
    assert find_knee([(1, 100), (2, 100), (3, 100), (4, 300)]) == 3


def test_there_is_none_on_a_straight_line_nor_with_three_points() -> None:
    assert find_knee([(1, 100), (2, 400), (3, 700), (4, 1000)]) is None
    assert find_knee([(1, 100), (2, 100), (3, 1000)]) is None


def test_there_is_none_where_nothing_was_waited_for() -> None:
    assert find_knee([(1, 0.0), (2, 0.0), (3, 0.0), (4, 0.0)]) is None
