"""The live view: loads that count each request once, drains, breakers that outlive churn."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ids import PoolId, ReplicaId, RouteId
from gateway.ledger.types import Prices
from gateway.obs.metrics import Metrics
from gateway.routing.prompt import Prompt
from gateway.routing.replicas import FORGET_AFTER_S, LiveReplica, Replicas
from gateway.routing.target import ReplicaRow, Target
from gateway.wire import CHAT, parse_generation
from gateway.wire.load import EngineLoad, EngineState, EngineStatus

PRICES = Prices(1, 2, 3, Decimal(1), Decimal(1), Decimal(1))
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TARGET = Target(RouteId("r"), PoolId("p"), "m", "up", "tollway", "least_loaded", PRICES, 50, NOW)
ROWS = [ReplicaRow(ReplicaId(name), PoolId("p"), f"http://{name}", "e1", "tollway") for name in ("a", "b")]


class HandClock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def replicas(clock: HandClock) -> Replicas:
    view = Replicas(clock, Metrics(), random.Random(7).randrange)
    view.update(ROWS)
    return view


def prompt(text: str = "x", stream: bool = True) -> Prompt:
    body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": text}]}
    return Prompt(parse_generation(CHAT, json.dumps(body).encode()), "salt")


PROMPT = prompt()


def named(replicas: Replicas, name: str) -> LiveReplica:
    return next(replica for replica in replicas.order(TARGET, PROMPT) if replica.id == name)


def load(running: int, epoch: str = "e1", waiting: int = 0) -> EngineLoad:
    return EngineLoad(epoch, running, waiting, 0.0)


def test_own_requests_are_not_counted_twice(replicas: Replicas) -> None:
    a = named(replicas, "a")
    first = replicas.began(a, TARGET, PROMPT)
    replicas.observe(a, load(running=3, waiting=2))  # one of them is ours
    assert a.load == 5
    second = replicas.began(a, TARGET, PROMPT)
    assert a.load == 6
    replicas.ended(a, first)
    replicas.ended(a, second)
    assert a.load == 4
    assert replicas.in_flight() == 0


def test_the_less_loaded_is_asked_first(replicas: Replicas) -> None:
    replicas.observe(named(replicas, "a"), load(5))
    assert [replica.id for replica in replicas.order(TARGET, PROMPT)] == ["b", "a"]
    assert [replica.id for replica in replicas.order(TARGET, PROMPT, below_load=5)] == ["b"]
    assert replicas.order(TARGET, PROMPT, excluded={ReplicaId("a"), ReplicaId("b")}) == []


async def test_a_replica_that_loads_again_is_not_asked(replicas: Replicas) -> None:
    """Its polls say so, and that it is ready."""
    state: EngineState = "starting"

    async def ask(row: ReplicaRow) -> EngineStatus | None:
        return EngineStatus(load(0), state, "m", None, frozenset()) if row.id == "a" else None

    await replicas.poll(ask)
    assert [replica.id for replica in replicas.order(TARGET, PROMPT)] == ["b"]
    state = "ready"
    await replicas.poll(ask)
    assert len(replicas.order(TARGET, PROMPT)) == 2


def test_draining_ends_with_a_new_epoch(replicas: Replicas) -> None:
    replicas.refused(named(replicas, "a"), is_closed=True)
    assert [replica.id for replica in replicas.order(TARGET, PROMPT)] == ["b"]
    replicas.update([replace(ROWS[0], epoch="e2"), ROWS[1]])
    assert len(replicas.order(TARGET, PROMPT)) == 2


def test_a_breaker_outlives_health_check_churn(replicas: Replicas, clock: HandClock) -> None:
    a = named(replicas, "a")
    for _ in range(5):
        replicas.ended(a, replicas.began(a, TARGET, PROMPT))
        replicas.failed(a)
    replicas.update([ROWS[1]])
    replicas.update(ROWS)
    assert [replica.id for replica in replicas.order(TARGET, PROMPT)] == ["b"]
    clock.seconds += 1.0
    assert len(replicas.order(TARGET, PROMPT)) == 2, "a probe is due"


def test_a_restarted_engine_is_probed_at_once(replicas: Replicas) -> None:
    a = named(replicas, "a")
    replicas.observe(a, load(1, "e1"))
    for _ in range(5):
        replicas.failed(a)
    replicas.observe(a, load(0, "e2"))
    assert len(replicas.order(TARGET, PROMPT)) == 2


def test_one_that_the_table_has_anew_begins_anew(replicas: Replicas) -> None:
    """Before it has said anything itself: it may be asked at once, has nothing in its cache, and none of the work that
    was last heard of."""
    a = named(replicas, "a")
    replicas.ended(a, replicas.began(a, CACHING, prompt(LONG)))
    replicas.observe(a, load(30, "e1", waiting=5))
    for _ in range(5):
        replicas.failed(a)
    assert [replica.id for replica in replicas.order(TARGET, PROMPT)] == ["b"]
    replicas.update([replace(ROWS[0], epoch="e2"), ROWS[1]])
    assert len(replicas.order(TARGET, PROMPT)) == 2
    assert (a.prefixes.num_bytes, a.load, a.queued_bytes, a.epoch) == (0, 0, 0, "e2")


def test_a_restart_counts_once_whoever_tells_of_it_first(replicas: Replicas) -> None:
    a = named(replicas, "a")
    replicas.observe(a, load(1, "e2"))
    replicas.ended(a, replicas.began(a, CACHING, prompt(LONG)))
    known = a.prefixes.num_bytes
    replicas.update([replace(ROWS[0], epoch="e2"), ROWS[1]])
    assert a.prefixes.num_bytes == known > 0, "of the new one"
    replicas.update([replace(ROWS[0], epoch="e3"), ROWS[1]])
    assert a.prefixes.num_bytes == 0
    replicas.ended(a, replicas.began(a, CACHING, prompt(LONG)))
    replicas.observe(a, load(1, "e3"))
    assert a.prefixes.num_bytes == known


def test_the_first_word_may_be_of_another_epoch_than_the_tables(replicas: Replicas) -> None:
    a = named(replicas, "a")
    for _ in range(5):
        replicas.failed(a)
    replicas.observe(a, replace(load(0), epoch=None))
    assert [replica.id for replica in replicas.order(TARGET, PROMPT)] == ["b"], (
        "who tells no epoch tells no restart"
    )
    replicas.observe(named(replicas, "b"), load(0, "e1"))
    replicas.update([replace(ROWS[0], epoch="e2"), ROWS[1]])
    assert len(replicas.order(TARGET, PROMPT)) == 2


def test_replicas_that_are_gone_are_forgotten(replicas: Replicas, clock: HandClock) -> None:
    a = named(replicas, "a")
    replicas.began(a, TARGET, PROMPT)
    replicas.update([ROWS[1]])
    assert replicas.in_flight() == 1
    clock.seconds += FORGET_AFTER_S + 1
    replicas.update([ROWS[1]])
    assert replicas.in_flight() == 0


def test_an_unknown_pool_has_nobody(replicas: Replicas) -> None:
    assert replicas.order(replace(TARGET, pool_id=PoolId("other")), PROMPT) == []


CACHING = replace(TARGET, strategy="prefix")
LONG = "once upon a time " * 100


def test_a_prompt_goes_where_its_beginning_is(replicas: Replicas) -> None:
    """And only then costs a hash: other strategies never ask for one."""
    b = named(replicas, "b")
    replicas.ended(b, replicas.began(b, CACHING, prompt(LONG)))
    for _ in range(20):
        assert replicas.order(CACHING, prompt(LONG + "and then?"))[0] is b
    assert {replicas.order(CACHING, prompt("other " * 300))[0].id for _ in range(50)} == {"a", "b"}
    usual = prompt(LONG)
    replicas.order(TARGET, usual)
    replicas.began(b, TARGET, usual)
    assert usual._chain is None


def test_a_restarted_replica_has_an_empty_cache(replicas: Replicas) -> None:
    b = named(replicas, "b")
    replicas.observe(b, load(0, "e1"))
    replicas.ended(b, replicas.began(b, CACHING, prompt(LONG)))
    replicas.observe(b, load(0, "e2"))
    assert {replicas.order(CACHING, prompt(LONG))[0].id for _ in range(50)} == {"a", "b"}
    assert b.prefixes.num_bytes == 0


def test_what_a_replica_has_evicted_is_forgotten(replicas: Replicas, clock: HandClock) -> None:
    b = named(replicas, "b")
    replicas.ended(b, replicas.began(b, CACHING, prompt("older " * 300)))
    clock.seconds += 30
    replicas.ended(b, replicas.began(b, CACHING, prompt(LONG)))
    clock.seconds += 30
    work = replicas.began(b, CACHING, prompt(LONG))
    assert work.match.matched_bytes > 1000
    replicas.reported(b, work, prompt_tokens=400, cached_tokens=16)
    replicas.ended(b, work)
    assert replicas.began(b, CACHING, prompt("older " * 300)).match.matched_bytes == 0
    assert replicas.began(b, CACHING, prompt(LONG)).match.matched_bytes > 1000, "it has just been made again"


def test_a_miss_goes_to_the_least_loaded(replicas: Replicas) -> None:
    """Duty H40: a miss goes to the least loaded replica, not to the one whose index is the smallest."""
    a, b = named(replicas, "a"), named(replicas, "b")
    for number in range(20):
        replicas.ended(a, replicas.began(a, CACHING, prompt(f"{number} " * 400)))
    replicas.observe(b, load(3))
    assert a.prefixes.num_bytes > b.prefixes.num_bytes
    assert {replicas.order(CACHING, prompt("new " * 400))[0].id for _ in range(20)} == {"a"}


def test_waiting_prompts_count_until_their_first_token(replicas: Replicas, clock: HandClock) -> None:
    a = named(replicas, "a")
    work, whole = replicas.began(a, CACHING, prompt(LONG)), replicas.began(a, CACHING, prompt("w", False))
    waiting = a.waiting_bytes
    assert waiting > len(LONG), "a whole answer shows no first token, so it is not waited for"
    behind = replicas.began(a, CACHING, prompt("next"))
    assert behind.ahead_bytes == waiting
    clock.seconds += 0.5
    replicas.first_data(a, work)
    assert a.speed.bytes_per_s == pytest.approx(waiting / 0.5)
    for one in (work, whole, behind):
        replicas.ended(a, one)
    assert a.waiting_bytes == 0


@given(st.lists(st.sampled_from(["begin", "end", "poll", "vanish", "appear", "fail"]), max_size=60))
def test_the_load_counter_does_not_depend_on_health(steps: list[str]) -> None:
    """Duty H40: whatever polls, restarts and the table say in between, the own load is what began and has not ended."""
    view, open_ = Replicas(HandClock(), Metrics(), random.Random(7).randrange), []
    view.update(ROWS)
    a = named(view, "a")
    for number, step in enumerate(steps):
        match step:
            case "begin":
                open_.append(view.began(a, CACHING, PROMPT))
            case "end" if open_:
                view.ended(a, open_.pop())
            case "poll":
                view.observe(a, load(number, f"e{number % 2}"))
            case "vanish":
                view.update(ROWS[1:])
            case "appear":
                view.update(ROWS)
            case "fail":
                view.failed(a)
        assert a.in_flight == view.in_flight() == len(open_)


def test_somebody_else_must_be_able_to_go_on(replicas: Replicas) -> None:
    a, b = named(replicas, "a"), named(replicas, "b")
    assert replicas.has_another(TARGET, a)
    replicas.refused(b, is_closed=True)
    assert not replicas.has_another(TARGET, a)
