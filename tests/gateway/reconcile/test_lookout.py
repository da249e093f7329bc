"""One look at all replicas: none of them holds up the others, and a lost one is read from its volume."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.server.journal import Journal, Record
from gateway.db import Database
from gateway.ids import PoolId, ReplicaId, RequestId
from gateway.reconcile.journal import (
    JournalPage,
    JournalRecord,
    ReplicaRef,
    ReplicaStatus,
    ReplicaUnreachable,
    UnreadableRecord,
)
from gateway.reconcile.lookout import GONE_AFTER_S, Lookout
from tests.fakes.clock import ManualClock
from tests.gateway.books import Books
from tests.instants import just_now

NOW = just_now()
GOOD, BAD = ReplicaId("replica_good"), ReplicaId("replica_bad")


class Reader:
    """Two replicas: a good one, and one whose journal is as the test says."""

    def __init__(self) -> None:
        self.bad: JournalPage | Exception = ReplicaUnreachable("nobody there")
        self.is_draining = False
        self.asked_after: list[str | None] = []

    async def status(self, replica: ReplicaRef) -> ReplicaStatus:
        working_on = frozenset({RequestId(f"req_on_{replica.replica_id}")})
        return ReplicaStatus("e1", working_on, self.is_draining)

    async def read(self, replica: ReplicaRef, after: str | None, limit: int) -> JournalPage:
        self.asked_after.append(after)
        if replica.replica_id == GOOD:
            return JournalPage(() if after == "g1" else (_record("req_good"),), "g1", True)
        if isinstance(self.bad, Exception):
            raise self.bad
        return self.bad


def _record(request_id: str) -> JournalRecord:
    return JournalRecord("end", RequestId(request_id), 0, "e1", NOW, prompt_tokens=3, completion_tokens=4)


def _replica(replica_id: ReplicaId, **more: object) -> ReplicaRef:
    return ReplicaRef(replica_id, PoolId("pool_a"), "http://x", **more)  # type: ignore[arg-type]


class Scene:
    def __init__(self, books: Books, database: Database) -> None:
        self.books, self.reader, self.clock = books, Reader(), ManualClock(NOW)
        self.lookout = Lookout(database, self.reader, self.clock)

    async def journalled(self) -> list[str]:
        return [row[0] for row in await self.books.rows("SELECT request_id FROM journal_attempt ORDER BY 1")]


@pytest.fixture
async def scene(books: Books, database_url: str) -> AsyncIterator[Scene]:
    database = Database(database_url, name="test-lookout", pool_size=4)
    yield Scene(books, database)
    await database.close()


@pytest.mark.parametrize(
    "page",
    [
        ReplicaUnreachable("not understood"),
        JournalPage((_record("req\0nul"),), "b1", True),
        JournalPage((JournalRecord("end", RequestId("r"), 0, "e", NOW, prompt_tokens=2**70),), "b1", True),
    ],
)
async def test_a_page_that_cannot_be_read_or_saved_holds_up_no_other_replica(
    scene: Scene, page: JournalPage | Exception
) -> None:
    scene.reader.bad = page
    view = await scene.lookout.look([_replica(BAD), _replica(GOOD)])
    assert (view.readable, view.silent) == ({GOOD}, {BAD})
    assert view.working_on == {"req_on_replica_bad", "req_on_replica_good"}
    assert await scene.journalled() == ["req_good"]


async def test_a_record_that_nobody_understands_is_listed_and_passed_over(scene: Scene) -> None:
    strange = UnreadableRecord("d1", '{"kind": "teleported"}', "Invalid enum value")
    scene.reader.bad = JournalPage((_record("req_1"),), "b1", True, (strange,))
    view = await scene.lookout.look([_replica(BAD)])
    await scene.lookout.look([_replica(BAD)])
    assert view.readable == {BAD}
    assert await scene.journalled() == ["req_1"]
    assert await scene.books.value("SELECT cursor FROM journal_cursor") == "b1"
    rows = await scene.books.rows("SELECT kind, replica_id, details ->> 'record' FROM review_item")
    assert [tuple(row) for row in rows] == [("unreadable_record", BAD, '{"kind": "teleported"}')]


async def test_what_was_saved_is_acknowledged_at_once_to_a_replica_that_drains(scene: Scene) -> None:
    """It waits for that before it exits."""
    await scene.lookout.look([_replica(GOOD)])
    assert scene.reader.asked_after == [None]
    await scene.books.run("DELETE FROM journal_cursor")
    scene.reader.is_draining = True
    await scene.lookout.look([_replica(GOOD)])
    assert scene.reader.asked_after == [None, None, "g1"]


async def test_the_volume_of_a_replica_that_is_gone_is_read(scene: Scene, tmp_path: Path) -> None:
    journal = _journal(tmp_path)
    gone = _replica(BAD, journal_dir=str(tmp_path))
    view = await scene.lookout.look([gone])
    assert (view.silent, await scene.journalled()) == ({BAD}, [])
    scene.clock.advance(GONE_AFTER_S)
    view = await scene.lookout.look([gone])
    assert (view.readable, await scene.journalled()) == (set(), []), "somebody still writes to it"
    journal.close()
    view = await scene.lookout.look([gone])
    assert (view.readable, view.silent, await scene.journalled()) == ({BAD}, set(), ["req_1"])
    assert view.gone == {BAD}
    assert await scene.books.count("journal_cursor") == 0, "the engine's own cursor is left alone"


async def test_a_stopped_replica_is_not_asked_but_read_at_once(scene: Scene, tmp_path: Path) -> None:
    scene.reader.bad = AssertionError("asked")
    _journal(tmp_path).close()
    view = await scene.lookout.look([_replica(BAD, stopped_at=NOW, journal_dir=str(tmp_path))])
    assert (view.readable, await scene.journalled()) == ({BAD}, ["req_1"])
    view = await scene.lookout.look([_replica(BAD, stopped_at=NOW, journal_dir=str(tmp_path / "elsewhere"))])
    assert view.readable == {BAD}, "what was read stays read"


async def test_without_its_volume_a_silent_replica_is_neither_readable_nor_waited_for(scene: Scene) -> None:
    gone = _replica(BAD, journal_dir="/nowhere/at/all")
    await scene.lookout.look([gone])
    scene.clock.advance(GONE_AFTER_S)
    view = await scene.lookout.look([gone])
    assert (view.readable, view.silent) == (set(), set())


def _journal(directory: Path) -> Journal:
    journal = Journal(directory, 0, lambda: 1_764_417_600_000)
    journal.write(
        Record(
            kind="end",
            request_id="req_1",
            engine_request_id="cmpl",
            attempt=0,
            epoch="e1",
            prompt_tokens=10,
            completion_tokens=5,
            finish_reason="stop",
        )
    )
    return journal
