"""Histograms: what lies at or below a bound is exact, percentiles are close, and sums are those of the whole."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from gateway.slo.histogram import Histogram, add, bound_of, is_bound, percentile

VALUES = st.lists(st.integers(0, 700_000_000), min_size=1, max_size=300)


def _of(values: list[int]) -> Histogram:
    found: Histogram = {}
    for value in values:
        add(found, {bound_of(value): 1})
    return found


def test_bounds_are_numbers_of_two_digits() -> None:
    found = [bound_of(value) for value in (0, 7, 10, 99, 100, 101, 990, 991, 999, 1_000, 800_000, 800_001)]
    assert found == [0, 7, 10, 99, 100, 110, 990, 1_000, 1_000, 1_000, 800_000, 810_000]
    assert [is_bound(value) for value in (0, 5, 110, 115, 800_000, 805_000)] == [
        False,
        True,
        True,
        False,
        True,
        False,
    ]


@given(VALUES, st.integers(1, 99), st.integers(0, 7))
def test_what_a_bound_holds_is_exact(values: list[int], digits: int, zeros: int) -> None:
    threshold = digits * 10**zeros
    assert is_bound(threshold)
    good = sum(count for bound, count in _of(values).items() if bound <= threshold)
    assert good == sum(value <= threshold for value in values)


@given(VALUES, st.sampled_from([0.0, 0.5, 0.95, 0.99, 1.0]))
def test_a_percentile_is_within_its_bucket(values: list[int], share: float) -> None:
    exact = sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
    found = percentile(_of(values), share)
    assert found is not None
    assert abs(found - exact) <= max(1.0, exact * 0.1 + 1)


@given(VALUES, VALUES)
def test_histograms_add_up(some: list[int], others: list[int]) -> None:
    whole = _of(some)
    add(whole, _of(others))
    assert whole == _of([*some, *others])


def test_nothing_has_no_percentile() -> None:
    assert percentile({}, 0.5) is None
