"""Requests whose gateway died: settled from the engine's journal, never while the engine works on them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from engine.server.journal import Journal, Record
from gateway.db import Database
from gateway.ids import IdSource, ReplicaId, RequestId
from gateway.ledger.settling import SettleBatch
from gateway.obs.metrics import Metrics
from gateway.reconcile.journal import (
    JournalPage,
    JournalRecord,
    NoJournal,
    ReplicaRef,
    ReplicaStatus,
    ReplicaUnreachable,
)
from gateway.reconcile.lookout import GONE_AFTER_S
from gateway.reconcile.service import Reconciler
from tests.fakes.clock import ManualClock
from tests.gateway.books import Books, MakeLedger
from tests.gateway.ledger.builders import reservation, settlement
from tests.instants import just_now

NOW = just_now()
BOUND = 50_000
REPLICA = ReplicaId("replica_1")


@dataclass
class ScriptedReplica:
    records: list[JournalRecord] = field(default_factory=list)
    working_on: set[str] = field(default_factory=set)
    is_reachable: bool = True
    has_journal: bool = True
    page_size: int = 2


class ScriptedReader:
    """The far side: replicas with a journal each."""

    def __init__(self) -> None:
        self.asked: list[ReplicaId] = []
        self.replicas: dict[str, ScriptedReplica] = {}

    async def status(self, replica: ReplicaRef) -> ReplicaStatus:
        self.asked.append(replica.replica_id)
        found = self._found(replica)
        return ReplicaStatus("e1", frozenset(map(RequestId, found.working_on)))

    async def read(self, replica: ReplicaRef, after: str | None, limit: int) -> JournalPage:
        found = self._found(replica)
        start = int(after or 0)
        end = min(len(found.records), start + found.page_size)
        return JournalPage(tuple(found.records[start:end]), str(end), end == len(found.records))

    def _found(self, replica: ReplicaRef) -> ScriptedReplica:
        found = self.replicas[replica.replica_id]
        if not found.is_reachable:
            raise ReplicaUnreachable
        if not found.has_journal:
            raise NoJournal
        return found


class Scene:
    """A dead gateway's hold, one replica, and a reconciler."""

    def __init__(self, books: Books, database: Database) -> None:
        self.books = books
        self.clock = ManualClock(NOW)
        self.reader = ScriptedReader()
        self.replica = self.reader.replicas[REPLICA] = ScriptedReplica()
        self.metrics = Metrics()
        self.reconciler = Reconciler(
            database,
            self.reader,
            SettleBatch(IdSource()),
            clock=self.clock,
            metrics=self.metrics,
            lag_s=0,
            gateway_silence_s=30,
        )

    def journal(self, kind: str, request_id: str = "req_1", attempt: int = 0, **figures: object) -> None:
        record = {"prompt_tokens": 10, "cached_tokens": 4, **figures}
        self.replica.records.append(
            JournalRecord(kind, RequestId(request_id), attempt, "e1", NOW, **record)  # type: ignore[arg-type]
        )

    async def kill_gateway(self) -> None:
        await self.books.run("UPDATE gateway_instance SET heartbeat_at = now() - interval '31 seconds'")

    async def event(self) -> tuple[object, ...]:
        rows = await self.books.rows(
            "SELECT status, prompt_uncached_tokens, prompt_cached_tokens, completion_tokens FROM usage_event"
        )
        assert len(rows) == 1
        return tuple(rows[0])


@pytest.fixture
async def scene(books: Books, make_ledger: MakeLedger, database_url: str) -> AsyncIterator[Scene]:
    await books.add_budget(10 * BOUND)
    await books.run("INSERT INTO pool (id, name, spec) VALUES ('pool_a', 'a', '{}')")
    await books.run(
        "INSERT INTO replica (id, pool_id, node, url) VALUES (:id, 'pool_a', 'n', 'http://x')", id=REPLICA
    )
    ledger = await make_ledger("gw-dead")
    prices = await books.rows("SELECT id FROM price ORDER BY id")
    assert [row[0] for row in prices] == [1, 2, 3]
    await ledger.reserve(reservation("req_1", estimated_prompt_tokens=30))
    ledger._helpers[0].cancel()  # its heart stops
    database = Database(database_url, name="test-reconcile")
    yield Scene(books, database)
    await database.close()
    ledger._open.clear()


async def test_a_live_gateway_is_left_alone(scene: Scene) -> None:
    scene.journal("end", completion_tokens=7, finish_reason="stop")
    assert await scene.reconciler.run_once() == 0
    assert await scene.books.count("hold") == 1


async def test_an_ended_attempt_is_settled_from_the_journal_once(scene: Scene) -> None:
    scene.journal("start")
    scene.journal("progress", completion_tokens=5)
    scene.journal("end", completion_tokens=7, overrun_tokens=2, finish_reason="stop")
    await scene.kill_gateway()
    assert await scene.reconciler.run_once() == 1
    assert await scene.reconciler.run_once() == 0
    assert await scene.event() == ("ok", 6, 4, 7)
    assert await scene.books.held_and_spent() == (0, 6 * 100 + 4 * 10 + 7 * 400)
    rows = await scene.books.rows("SELECT billed_completion_tokens, overrun_tokens FROM attempt")
    assert [tuple(row) for row in rows] == [(7, 2)]
    assert await scene.books.value("SELECT matched_at IS NOT NULL FROM journal_attempt")


async def test_never_while_the_replica_works_on_it(scene: Scene) -> None:
    scene.journal("progress", completion_tokens=5)
    scene.replica.working_on = {"req_1"}
    await scene.kill_gateway()
    await scene.books.run("UPDATE hold SET expires_at = :past", past=NOW - timedelta(seconds=1))
    assert await scene.reconciler.run_once() == 0
    scene.replica.working_on = set()
    scene.journal("end", completion_tokens=9, finish_reason="abort")
    assert await scene.reconciler.run_once() == 1
    assert await scene.event() == ("cancelled", 6, 4, 9)


async def test_a_cut_off_journal_waits_for_its_last_word_until_the_hold_expires(scene: Scene) -> None:
    scene.journal("progress", completion_tokens=64)
    await scene.kill_gateway()
    assert await scene.reconciler.run_once() == 0
    await scene.books.run("UPDATE hold SET expires_at = :past", past=NOW - timedelta(seconds=1))
    assert await scene.reconciler.run_once() == 1
    assert await scene.event() == ("unknown", 6, 4, 64)


async def test_a_silent_replica_is_waited_for_and_then_taken_for_gone(scene: Scene) -> None:
    scene.replica.is_reachable = False
    await scene.kill_gateway()
    assert await scene.reconciler.run_once() == 0
    scene.clock.advance(GONE_AFTER_S - 1)
    assert await scene.reconciler.run_once() == 0
    scene.clock.advance(2)
    assert await scene.reconciler.run_once() == 1
    assert await scene.event() == ("unknown", 30, 0, 0)
    assert await scene.books.value("SELECT is_provisional FROM settled_request")


async def test_evidence_that_comes_later_corrects_once(scene: Scene) -> None:
    scene.replica.is_reachable = False
    await scene.kill_gateway()
    await scene.reconciler.run_once()
    scene.clock.advance(GONE_AFTER_S + 1)
    assert await scene.reconciler.run_once() == 1
    scene.replica.is_reachable = True
    scene.journal("end", completion_tokens=7, finish_reason="stop")
    assert await scene.reconciler.run_once() == 1
    assert await scene.reconciler.run_once() == 0
    cost = 6 * 100 + 4 * 10 + 7 * 400
    assert await scene.books.held_and_spent() == (0, cost)
    assert await scene.books.value("SELECT sum(amount_nanousd)::int FROM usage_event") == cost
    assert await scene.books.value("SELECT count(*) FROM usage_event WHERE corrects IS NOT NULL") == 1
    assert await scene.books.count("attempt") == 1
    await scene.reconciler.check()
    assert await scene.books.value("SELECT resolution FROM review_item") == "settled from evidence"


async def test_what_a_lost_engine_is_charged_for_is_listed_for_review(scene: Scene) -> None:
    scene.replica.is_reachable = False
    await scene.kill_gateway()
    await scene.reconciler.run_once()
    scene.clock.advance(GONE_AFTER_S + 1)
    await scene.reconciler.run_once()
    rows = await scene.books.rows("SELECT kind, request_id, tenant_id, details FROM review_item")
    assert [tuple(row)[:3] for row in rows] == [("engine_gone", "req_1", "proj_a")]
    assert rows[0].details["charged_prompt_tokens"] == 30
    await scene.reconciler.check()
    assert scene.metrics.ledger_review_items.labels("engine_gone")._value.get() == 1


async def test_what_the_volume_of_a_stopped_replica_says_is_its_last_word(
    scene: Scene, tmp_path: Path
) -> None:
    """Nobody will close its journal: there is nothing to wait for until the hold expires."""
    journal = Journal(tmp_path, 0, lambda: int(NOW.timestamp() * 1000))
    for completion in (0, 64):
        journal.write(
            Record(
                kind="progress",
                request_id="req_1",
                engine_request_id="cmpl",
                attempt=0,
                epoch="e1",
                prompt_tokens=10,
                cached_tokens=4,
                completion_tokens=completion,
            )
        )
    journal.close()
    await scene.books.run("UPDATE replica SET state = 'stopped', journal_dir = :dir", dir=str(tmp_path))
    await scene.kill_gateway()
    assert await scene.reconciler.run_once() == 1
    assert await scene.event() == ("unknown", 6, 4, 64)
    assert scene.reader.asked == []


async def test_a_replica_that_was_stopped_before_a_request_never_had_it(scene: Scene) -> None:
    """Whatever is left of its journal: the request is neither held up nor charged because of it."""
    await scene.books.run(
        "INSERT INTO replica (id, pool_id, node, state, updated_at) VALUES"
        " ('replica_0', 'pool_a', 'n', 'stopped', now() - interval '1 day')"
    )
    await scene.kill_gateway()
    assert await scene.reconciler.run_once() == 1
    assert await scene.event() == ("error", 0, 0, 0)


async def test_holds_that_must_wait_stand_before_nobody(
    scene: Scene, make_ledger: MakeLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than one batch, all of a pool whose replica is silent, and older than the one that is due."""
    monkeypatch.setattr("gateway.reconcile.service.HOLDS_PER_BATCH", 2)
    scene.replica.is_reachable = False
    other = await make_ledger("gw-dead-too")
    for number in range(2, 6):
        await other.reserve(reservation(f"req_{number}"))
    await other.reserve(reservation("req_due", pool_id="pool_b"))
    other._helpers[0].cancel()
    await scene.kill_gateway()
    assert await scene.reconciler.run_once() == 1
    assert await scene.books.value("SELECT request_id FROM settled_request") == "req_due"
    other._open.clear()


async def test_a_request_that_no_journal_knows_costs_nothing(scene: Scene) -> None:
    """It never reached an engine: the journal was read to its end after the gateway was dead."""
    await scene.kill_gateway()
    assert await scene.reconciler.run_once() == 1
    assert await scene.event() == ("error", 0, 0, 0)
    assert await scene.books.held_and_spent() == (0, 0)


async def test_an_engine_without_a_journal_is_settled_at_its_prompt(scene: Scene) -> None:
    scene.replica.has_journal = False
    await scene.kill_gateway()
    assert await scene.reconciler.run_once() == 1
    assert await scene.event() == ("unknown", 30, 0, 0)


async def test_of_several_attempts_the_last_is_billed(scene: Scene) -> None:
    scene.journal("end", attempt=0, completion_tokens=0, finish_reason="error")
    scene.journal("end", attempt=1, completion_tokens=7, finish_reason="length")
    await scene.kill_gateway()
    assert await scene.reconciler.run_once() == 1
    assert await scene.event() == ("ok", 6, 4, 7)
    rows = await scene.books.rows(
        "SELECT attempt, billed_prompt_tokens, unbilled_reason FROM attempt ORDER BY 1"
    )
    assert [tuple(row) for row in rows] == [(0, 0, "retry"), (1, 10, None)]


async def test_a_late_settlement_of_the_gateway_itself_is_a_duplicate(
    scene: Scene, make_ledger: MakeLedger
) -> None:
    scene.journal("end", completion_tokens=7, finish_reason="stop")
    await scene.kill_gateway()
    await scene.reconciler.run_once()
    again = await make_ledger("gw-again")
    hold = await again.reserve(reservation("req_1"))
    again.settle(settlement(hold, NOW, completion=90))
    await again.drain()
    assert await scene.event() == ("ok", 6, 4, 7)
    assert (await scene.books.held_and_spent())[1] == 6 * 100 + 4 * 10 + 7 * 400


async def test_an_attempt_that_only_the_journal_knows_becomes_unbilled(
    scene: Scene, make_ledger: MakeLedger
) -> None:
    """The gateway retried and saw nothing of the first attempt: journal = Σ attempt all the same."""
    alive = await make_ledger("gw-alive")
    hold = await alive.reserve(reservation("req_2"))
    one = settlement(hold, NOW, prompt=10, completion=5)
    record = one.attempts[0]
    served = type(record).billed(1, REPLICA, "e1", prompt_tokens=10, cached_tokens=0, completion_tokens=5)
    alive.settle(type(one)(hold, "ok", NOW, (served,)))
    await alive.drain()
    scene.journal("end", "req_2", 0, cached_tokens=0, completion_tokens=3, finish_reason="error")
    scene.journal("end", "req_2", 1, cached_tokens=0, completion_tokens=5, finish_reason="stop")
    await scene.reconciler.run_once()
    journalled = await scene.books.value(
        "SELECT sum(prompt_tokens + completion_tokens)::int FROM journal_attempt"
    )
    accounted = await scene.books.value("SELECT sum(prompt_tokens + completion_tokens)::int FROM attempt")
    assert journalled == accounted == 28
    assert await scene.books.value("SELECT unbilled_reason FROM attempt WHERE attempt = 0") == "retry"
    assert await scene.books.value("SELECT amount_nanousd FROM usage_event") == 10 * 100 + 5 * 400


async def test_somebody_elses_engine_is_never_asked(scene: Scene) -> None:
    """It would be shown the key that our engines take."""
    await scene.books.run('UPDATE pool SET spec = \'{"kind": "external"}\'')
    await scene.kill_gateway()
    assert await scene.reconciler.run_once() == 1
    assert scene.reader.asked == []
    assert await scene.event() == ("unknown", 30, 0, 0)
    assert await scene.books.count("review_item") == 0, "it never had a journal to lose"


async def test_evidence_of_an_unknown_request_is_listed_and_never_settles(scene: Scene) -> None:
    scene.journal("end", "req_never_heard_of", completion_tokens=7, finish_reason="stop")
    await scene.reconciler.run_once()
    await scene.reconciler.check()
    assert await scene.books.count("review_item") == 0, "its settlement may wait in a spool"
    await scene.books.run("UPDATE journal_attempt SET read_at = now() - interval '2 hours'")
    await scene.reconciler.run_once()
    await scene.reconciler.check()
    assert await scene.books.value("SELECT subject FROM review_item") == "req_never_heard_of"
    assert await scene.books.count("usage_event") == 0
    assert scene.metrics.ledger_drift_tokens._value.get() == 17


async def test_both_equalities_are_checked_all_the_time(scene: Scene) -> None:
    """Duty A10: an engine's epoch and the ledger, and an event and its attempts, to the token."""
    scene.journal("end", completion_tokens=7, finish_reason="stop")
    await scene.kill_gateway()
    assert await scene.reconciler.run_once() == 1
    await scene.reconciler.check()
    metrics = scene.metrics
    assert metrics.ledger_epoch_drift_tokens._value.get() == 0
    assert await scene.books.value("SELECT journalled_tokens FROM engine_epoch") == 17
    assert await scene.books.value("SELECT billed_tokens FROM engine_epoch") == 17
    await scene.books.run("UPDATE engine_epoch SET unbilled_tokens = 3")
    await scene.books.run("UPDATE usage_event SET completion_tokens = completion_tokens + 2")
    await scene.reconciler.check()
    assert metrics.ledger_epoch_drift_tokens._value.get() == 3
    assert metrics.ledger_event_drift_tokens._value.get() == 2
