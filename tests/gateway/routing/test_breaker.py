"""The breaker: opens on the replica's own failures, lets one probe through, closes or waits longer."""

from __future__ import annotations

from gateway.routing.breaker import Breaker, BreakerRules

RULES = BreakerRules(failures=3, open_s=1.0, open_s_max=4.0, probe_timeout_s=10.0)


def opened(now: float = 0.0) -> Breaker:
    breaker = Breaker(RULES)
    for _ in range(RULES.failures):
        breaker.began(now)
        breaker.failed(now)
    return breaker


def test_opens_after_consecutive_failures_only() -> None:
    breaker = Breaker(RULES)
    for outcome in ("f", "f", "s", "f", "f"):
        breaker.began(0)
        breaker.failed(0) if outcome == "f" else breaker.succeeded()
    assert breaker.allows(0)
    breaker.failed(0)
    assert not breaker.allows(0.5)
    assert breaker.is_open


def test_neutral_answers_neither_open_nor_heal() -> None:
    breaker = Breaker(RULES)
    breaker.failed(0)
    breaker.failed(0)
    for _ in range(10):
        breaker.neutral()
    assert breaker.allows(0)
    breaker.failed(0)
    assert not breaker.allows(0)


def test_one_probe_at_a_time() -> None:
    breaker = opened()
    assert breaker.allows(1.0)
    breaker.began(1.0)
    assert not breaker.allows(1.0)
    breaker.succeeded()
    assert breaker.allows(1.0)
    assert not breaker.is_open


def test_a_failed_probe_waits_longer_up_to_a_limit() -> None:
    breaker, now, waits = opened(), 0.0, []
    for _ in range(4):
        start = now
        while not breaker.allows(now):
            now += 0.5
        waits.append(now - start)
        breaker.began(now)
        breaker.failed(now)
    assert waits == [1.0, 2.0, 4.0, 4.0]


def test_stragglers_do_not_prolong_it() -> None:
    breaker = opened()
    breaker.failed(0.9)
    assert breaker.allows(1.0)


def test_a_lost_probe_does_not_block_for_ever() -> None:
    breaker = opened()
    breaker.began(1.0)
    assert not breaker.allows(10.9)
    assert breaker.allows(11.0)


def test_a_neutral_probe_may_be_repeated() -> None:
    breaker = opened()
    breaker.began(1.0)
    breaker.neutral()
    assert breaker.allows(1.0)
    assert breaker.is_open


def test_a_restarted_replica_is_probed_at_once() -> None:
    breaker = opened()
    breaker.restarted()
    assert breaker.allows(0.0)
    breaker.began(0.0)
    assert not breaker.allows(0.0)
