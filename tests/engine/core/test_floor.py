"""The lower class's tenth of the step time: owed while it waits, paid back, never hoarded."""

from __future__ import annotations

from engine.core.floor import SHARE, Floor


def run(floor: Floor, seconds: float, part: float, *, is_waiting: bool = True, start: float = 0.0) -> float:
    """Steps of 10 ms; returns the time."""
    now = start
    for _ in range(round(seconds / 0.01)):
        floor.pass_time(now)
        floor.scheduled(part, is_waiting=is_waiting)
        now += 0.01
    floor.pass_time(now)
    return now


def test_who_waits_in_vain_is_owed_after_a_while() -> None:
    floor = Floor()
    now = run(floor, 2.0, 0.0)
    assert not floor.is_owed
    run(floor, 1.0, 0.0, start=now)
    assert floor.is_owed
    assert not floor.has_enough


def test_a_tenth_is_enough_to_wait_and_not_too_much_to_go_on() -> None:
    floor = Floor()
    run(floor, 60.0, SHARE)
    assert not floor.is_owed
    assert not floor.has_enough


def test_who_takes_more_has_had_enough_after_a_while() -> None:
    floor = Floor()
    now = run(floor, 0.2, 0.5)
    assert not floor.has_enough
    run(floor, 1.0, 0.5, start=now)
    assert floor.has_enough


def test_what_is_owed_is_paid_until_it_is_even() -> None:
    floor = Floor()
    now = run(floor, 3.0, 0.0)
    now = run(floor, 0.2, 1.0, start=now)
    assert floor.is_owed, "not for one step, else requests would be moved back and forth"
    run(floor, 0.2, 1.0, start=now)
    assert not floor.is_owed


def test_who_alternates_gets_its_share_in_the_long_run() -> None:
    floor, now, got = Floor(), 0.0, 0.0
    for _ in range(10_000):
        floor.pass_time(now)
        part = 0.8 if floor.is_owed else 0.0
        got += part * 0.01
        floor.scheduled(part, is_waiting=True)
        now += 0.01
    assert abs(got / now - SHARE) < 0.02


def test_nobody_waiting_is_owed_nothing() -> None:
    floor = Floor()
    now = run(floor, 10.0, 0.0)
    assert floor.is_owed
    floor.scheduled(0.0, is_waiting=False)
    floor.pass_time(now + 100.0)
    assert not floor.is_owed


def test_plenty_in_the_past_is_no_debt_for_ever() -> None:
    floor = Floor()
    now = run(floor, 1000.0, 1.0, is_waiting=False)
    run(floor, 6.0, 0.0, start=now)
    assert floor.is_owed
