"""Burn rates: windows add up to what is inside them, and rules need both windows and enough requests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.slo.burn import WINDOWS_S, is_burning, slices, state_of, window_start, windows
from gateway.slo.types import Series, State, Sums
from tests.gateway.slo.test_matching import objective

SERIES = Series("proj_a", "m", "interactive", "availability")
PROMISE = objective(sli="availability", threshold_us=0, target_ppm=999_000)
NOW = 1_790_000_000


@given(st.integers(1_700_000_000, 1_900_000_000), st.lists(st.integers(0, 31 * 86_400), max_size=40))
def test_every_window_is_the_sum_of_its_slices(now: int, ages: list[int]) -> None:
    """Each second belongs to one segment of one slice, and to the windows that have begun by then."""
    end = now // 60 * 60 + 60
    parts = slices(now)
    moments = [end - 1 - age for age in ages]
    by_slice: dict[int, Sums] = {}
    for part in parts:
        inside = sum(segment.start <= at < segment.end for segment in part.segments for at in moments)
        by_slice[part.start] = Sums(0, inside)
    found = windows(now, by_slice)
    for name, sums in found.items():
        assert sums.total == sum(at >= window_start(end, name) for at in moments), name


@given(st.integers(1_700_000_000, 1_900_000_000))
def test_windows_are_read_in_few_rows(now: int) -> None:
    """Minutes only for the last hours and at the edges: what a pass reads does not grow with the window."""
    units = {"1m": 60, "1h": 3_600, "1d": 86_400}
    rows = dict.fromkeys(units, 0)
    for part in slices(now):
        for segment in part.segments:
            rows[segment.width] += (segment.end - segment.start) // units[segment.width]
    assert rows["1m"] <= 60 * 6
    assert rows["1h"] <= 24 * 5
    assert rows["1d"] <= 30


def state(promise: Any = PROMISE, **bad: tuple[int, int]) -> State:
    """(bad, all) by window; where nothing is said, all was good."""
    found = {name: Sums(1_000, 1_000) for name in WINDOWS_S}
    for name, (number, total) in bad.items():
        found[name.removeprefix("w")] = Sums(total - number, total)
    return state_of(SERIES, promise, found)


def test_the_budget_that_is_left() -> None:
    assert state(w30d=(0, 10_000)).budget_left == 1
    assert state(w30d=(5, 10_000)).budget_left == pytest.approx(0.5)
    assert state(w30d=(30, 10_000)).budget_left == pytest.approx(-2)
    assert state(w30d=(0, 0)).budget_left is None
    assert state(w1h=(20, 1_000)).burn["1h"] == pytest.approx(20)
    assert state(w1h=(0, 0)).burn["1h"] is None


@pytest.mark.parametrize(
    ("bad", "severity"),
    [
        ({"w1h": (15, 1_000), "w5m": (15, 1_000)}, "page"),
        ({"w1h": (145, 10_000), "w5m": (145, 10_000)}, "page"),
        ({"w1h": (143, 10_000), "w5m": (143, 10_000)}, None),
        ({"w1h": (14, 1_000), "w5m": (500, 1_000)}, None),
        ({"w1h": (500, 1_000), "w5m": (14, 1_000)}, None),
        ({"w6h": (60, 10_000), "w30m": (6, 1_000)}, "page"),
        ({"w6h": (9, 1_000), "w30m": (6, 1_000)}, None),
        ({"w1d": (3, 1_000), "w2h": (3, 1_000)}, "ticket"),
        ({"w3d": (10, 10_000), "w6h": (1, 1_000)}, "ticket"),
        ({"w3d": (9, 10_000), "w6h": (5, 1_000)}, None),
        ({"w1d": (29, 10_000), "w2h": (29, 10_000), "w6h": (0, 10_000)}, None),
        ({"w1h": (0, 0), "w5m": (0, 0)}, None),
        # Too few to tell, however bad.
        ({"w1h": (29, 29), "w5m": (29, 29)}, None),
        ({"w1h": (30, 30), "w5m": (5, 5)}, "page"),
        ({"w1h": (2, 40), "w5m": (2, 4)}, None),
    ],
)
def test_rules(bad: dict[str, tuple[int, int]], severity: str | None) -> None:
    found = state(**bad)
    assert [one for one in ("page", "ticket") if is_burning(found, one)] == ([severity] if severity else [])  # type: ignore[arg-type]  # one of the two


def test_what_is_nearly_met_is_not_over() -> None:
    nearly = state(w1h=(13, 1_000), w5m=(13, 1_000))
    assert not is_burning(nearly, "page")
    assert is_burning(nearly, "page", ease=0.8)
