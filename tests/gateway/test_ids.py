"""Ids: layout, order, and that clock and randomness are the caller's."""

from datetime import UTC, datetime
from uuid import RFC_4122

from gateway.ids import IdSource, new_id, uuid7
from tests.fakes.clock import ManualClock


def zeros(size: int) -> bytes:
    return bytes(size)


def test_uuid7_carries_the_time_and_the_version() -> None:
    clock = ManualClock(datetime(2026, 3, 4, 5, 6, 7, 891_011, tzinfo=UTC))
    made = uuid7(clock)
    assert made.version == 7
    assert made.variant == RFC_4122
    assert made.int >> 80 == int(datetime(2026, 3, 4, 5, 6, 7, 891_000, tzinfo=UTC).timestamp() * 1000)


def test_ids_of_later_microseconds_sort_later_whatever_the_randomness() -> None:
    clock = ManualClock()
    first = new_id("req", clock, entropy=lambda n: b"\xff" * n)
    clock.advance(1e-6)
    assert first < new_id("req", clock, entropy=zeros)


def test_source_increases_within_one_instant() -> None:
    source = IdSource(ManualClock())
    ids = [source.new("req") for _ in range(5000)]
    assert ids == sorted(set(ids))


def test_source_increases_when_the_wall_clock_steps_back() -> None:
    clock = ManualClock()
    source = IdSource(clock)
    before = source.uuid7()
    clock.step_wall(-3600)
    assert source.uuid7() > before


def test_same_clock_and_randomness_give_the_same_id() -> None:
    assert new_id("key", ManualClock(), zeros) == new_id("key", ManualClock(), zeros)
    assert new_id("key", ManualClock(), zeros).startswith("key_")


def test_two_calls_differ() -> None:
    clock = ManualClock()
    assert uuid7(clock) != uuid7(clock)
