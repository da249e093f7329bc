"""The measured speed: what waited, over how long it took."""

from __future__ import annotations

import pytest

from gateway.routing.prefix import Match
from gateway.routing.work import Speed, Work


def test_unmeasured_says_so() -> None:
    assert (Speed().bytes_per_s, Speed().mean_bytes) == (None, 0.0)


def test_what_is_cached_takes_no_time() -> None:
    speed = Speed()
    speed.note(Work(1000, 5000, 10.0, True, Match(4000, 1.0)), now=12.0)
    assert speed.bytes_per_s == pytest.approx(1000.0)
    assert speed.mean_bytes == pytest.approx(1000.0)


def test_it_follows_a_replica_that_became_slow() -> None:
    speed = Speed()
    for _ in range(50):
        speed.note(Work(0, 1000, 0.0, True), now=0.1)
    assert speed.bytes_per_s == pytest.approx(10_000)
    for _ in range(50):
        speed.note(Work(0, 1000, 0.0, True), now=1.0)
    assert speed.bytes_per_s == pytest.approx(1000, rel=0.1)
