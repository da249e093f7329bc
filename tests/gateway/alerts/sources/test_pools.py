"""What pools and replicas signal, and simulations of them with a virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from gateway.alerts.episodes import Level, Signal
from gateway.alerts.kinds import KINDS
from gateway.alerts.sources.pools import (
    ReplicaHealth,
    Sample,
    down_signals,
    flapping_signals,
    kv_signals,
    latency_signals,
    preemption_signals,
    queue_signals,
)
from tests.gateway.alerts.logbook import Logbook

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SERVING = {"pool_a": "a"}


def samples(
    waiting: Callable[[int], int] = lambda age: 0,
    kv_usage: Callable[[int], float] = lambda age: 0.0,
    preemptions: Callable[[int], int | None] = lambda age: 0,
    replicas: int = 1,
    newest: int = 0,
) -> list[Sample]:
    """Every ten seconds of the last five minutes, as functions of the age in seconds."""
    return [
        Sample(
            "pool_a",
            "a",
            f"replica_{number}",
            NOW - timedelta(seconds=age),
            waiting(age),
            1,
            kv_usage(age),
            preemptions(age),
        )
        for age in range(newest, 300, 10)
        for number in range(replicas)
    ]


def levels(signals: list[Signal]) -> dict[str, Level]:
    return {one.scope: one.level for one in signals}


def test_a_queue_that_lasts_asks_for_more_and_a_longer_one_warns_sooner() -> None:
    def queue(waiting: Callable[[int], int], **more: int) -> list[Level]:
        found = levels(queue_signals(samples(waiting, **more), SERVING, NOW))
        return [found["pool_a/scale"], found["pool_a/warn"]]

    assert queue(lambda age: 31) == ["firing", "quiet"]
    assert queue(lambda age: 30) == ["between", "quiet"]
    assert queue(lambda age: 31 if age < 100 else 0) == ["between", "quiet"], "not yet for two minutes"
    assert queue(lambda age: 31 if age != 60 else 3) == ["between", "quiet"], "it was short in between"
    assert queue(lambda age: 51 if age < 50 else 0) == ["between", "firing"]
    assert queue(lambda age: 24) == ["quiet", "quiet"]
    assert queue(lambda age: 60, newest=70) == ["between", "between"], "nothing is known of now"
    assert queue(lambda age: 31, replicas=3) == ["firing", "quiet"], "per replica"


def test_a_pool_that_serves_and_says_nothing_is_not_known_to_be_well() -> None:
    for signals in (queue_signals, kv_signals, preemption_signals):
        assert set(levels(signals([], SERVING, NOW)).values()) == {"between"}
        assert signals([], {}, NOW) == []


def test_memory_by_the_fullest_replica() -> None:
    def memory(kv_usage: Callable[[int], float]) -> Level:
        return levels(kv_signals(samples(kv_usage=kv_usage, replicas=2), SERVING, NOW))["pool_a"]

    assert memory(lambda age: 0.96) == "firing"
    assert memory(lambda age: 0.96 if age < 40 else 0.5) == "between"
    assert memory(lambda age: 0.93) == "between"
    assert memory(lambda age: 0.9) == "quiet"
    mixed = samples(kv_usage=lambda age: 0.1) + [
        Sample("pool_a", "a", "full", one.at, 0, 1, 0.99, 0) for one in samples()
    ]
    (signal,) = kv_signals(mixed, SERVING, NOW)
    assert (signal.level, signal.values["kv_usage"]) == ("firing", 0.99)


def test_preemptions_are_what_the_counters_grew_by() -> None:
    def preempted(counter: Callable[[int], int | None]) -> tuple[Level, int]:
        (signal,) = preemption_signals(samples(preemptions=counter), SERVING, NOW)
        return signal.level, signal.values["preemptions"]

    assert preempted(lambda age: 1_000) == ("quiet", 0)
    assert preempted(lambda age: 1_000 if age > 100 else 1_003) == ("between", 3)
    assert preempted(lambda age: 1_000 if age > 100 else 1_005) == ("firing", 5)
    assert preempted(lambda age: 1_000 if age > 100 else 2) == ("quiet", 0), "it was started anew"
    assert preempted(lambda age: None) == ("quiet", 0)


def test_late_answers() -> None:
    def late(**histogram: int) -> Level | None:
        found = latency_signals({"pool_a": {int(k[1:]): n for k, n in histogram.items()}}, SERVING)
        return found[0].level if found else None

    assert late(s1000000=98, s60000000=2) == "firing"
    assert late(s1000000=1_000, s60000000=2) == "quiet"
    assert late(s60000000=19) == "between", "too few to tell"
    assert late(s27000000=100) == "between"
    assert late() is None


def health(state: str, restarts: int = 0) -> list[ReplicaHealth]:
    return [ReplicaHealth("replica_1", "pool_a", "a", "node", state, restarts, None)]


def test_a_flapping_pool_is_down_once_and_flaps_once() -> None:
    """A replica that lives for a minute, eight times in a row, and then for good: the supervisor forgives it after two
    minutes. Looked at every ten seconds."""
    down = Logbook(KINDS["replica.down"].hold_of)
    flapping = Logbook(KINDS["replica.flapping"].hold_of)
    for step in range(6 * 60):
        minute, place = divmod(step, 6)
        crashes = min(minute // 2 + (1 if minute >= 10 else 0), 9) if minute >= 10 else 0
        is_flapping = 10 <= minute < 26
        state = ("failed", "starting", "ready")[min(place, 2)] if is_flapping else "ready"
        restarts = crashes if minute < 28 else 0
        for book, signals in ((down, down_signals), (flapping, flapping_signals)):
            book.look(minute, signals(health(state, restarts)))
    assert [what for _, what, _ in down.log] == ["fired", "resolved"]
    assert [what for _, what, _ in flapping.log] == ["fired", "resolved"]
    assert down.log[0][0] == 10
    assert 26 <= down.log[1][0] <= 32
    assert 28 <= flapping.log[1][0] <= 40


def test_a_replica_that_crashes_now_and_then_is_one_episode() -> None:
    """Forgiven for a while, then crashing again, too seldom to begin an episode: what is open goes on."""
    book = Logbook(KINDS["replica.flapping"].hold_of)
    for minute in range(60):
        restarts = 3 if minute < 4 or 26 <= minute < 30 else 1 if 8 <= minute < 26 else 0
        book.look(minute, flapping_signals(health("ready", restarts)))
    assert [what for _, what, _ in book.log] == ["fired", "resolved"]
    assert book.log[1][0] >= 40


def test_one_that_is_starting_is_neither_down_nor_back() -> None:
    found = {
        state: down_signals(health(state))[0].level
        for state in ("failed", "lost", "starting", "draining", "ready")
    }
    assert found == {
        "failed": "firing",
        "lost": "firing",
        "starting": "between",
        "draining": "between",
        "ready": "quiet",
    }
    assert down_signals([]) == []
