"""Waits after failures: none at first, then doubling to a cap; forgotten after a quiet hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gateway.sessions.throttle import FORGOTTEN_AFTER, WAIT_S_MAX, Attempts, after_attempt, subjects

NOW = datetime(2026, 3, 4, tzinfo=UTC)


def test_waits_double_and_end() -> None:
    seen: Attempts | None = None
    now, waits = NOW, []
    for _ in range(30):
        seen = after_attempt(seen, now, free=3)
        assert seen is not None
        waits.append((seen.blocked_until - now).total_seconds())
        now = seen.blocked_until
    assert waits[:6] == [0, 0, 1, 2, 4, 8]
    assert waits[-1] == max(waits) == WAIT_S_MAX
    assert seen is not None
    assert after_attempt(seen, seen.blocked_until - timedelta(milliseconds=1), free=3) is None
    later = seen.last_at + FORGOTTEN_AFTER
    assert after_attempt(seen, later, free=3) == Attempts(1, later, later)
    assert timedelta(seconds=WAIT_S_MAX) < FORGOTTEN_AFTER


def test_subjects_are_keyed_and_name_nobody() -> None:
    one = subjects(b"key", "Ann@Example.com ", "2001:db8::1")
    assert one == subjects(b"key", "ann@example.com", "2001:db8::ffff"), "a whole /64 counts as one"
    assert one[1] != subjects(b"key", "ann@example.com", "2001:db8:0:1::1")[1]
    assert one != subjects(b"other", "ann@example.com", "2001:db8::1")
    assert b"ann" not in one[0]
    assert subjects(b"key", "a", None)[1] == subjects(b"key", "a", "no address")[1]
    account, address = subjects(b"key", "192.0.2.1", "192.0.2.1")
    assert account != address
