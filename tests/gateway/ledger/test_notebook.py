"""Refusals are counted once whatever happens to the database or to the run; pseudonyms can be looked up."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.db import Database
from gateway.ids import IdSource
from gateway.ledger import notebook as module
from gateway.ledger.notebook import Notebook
from gateway.ledger.spool import Spool
from gateway.obs.metrics import Metrics
from tests.fakes.clock import ManualClock
from tests.gateway.books import Books

NOW = datetime(2026, 11, 29, 12, 0, 30, tzinfo=UTC)
AWAY = "postgresql://nobody@127.0.0.1:1/none"


class Scene:
    """Runs of one gateway, one after the other."""

    def __init__(self, books: Books, directory: Path) -> None:
        self.books, self.directory, self.clock = books, directory, ManualClock(NOW)
        self.databases: list[Database] = []

    def run(self, url: str) -> Notebook:
        self.databases.append(Database(url, name="test-notebook", pool_size=1))
        return Notebook(
            self.databases[-1],
            Spool(self.directory, "gw-1.notes"),
            gateway_id="gw-1",
            clock=self.clock,
            ids=IdSource(),
            metrics=Metrics(),
        )

    async def counted(self) -> dict[tuple[str, str, str], int]:
        rows = await self.books.rows(
            "SELECT tenant_id, key_id, reason, sum(requests)::int FROM refusal_minute GROUP BY 1, 2, 3"
        )
        return {tuple(row[:3]): row[3] for row in rows}


@pytest.fixture
async def scene(books: Books, tmp_path: Path) -> AsyncIterator[Scene]:
    scene = Scene(books, tmp_path)
    yield scene
    for database in scene.databases:
        await database.close()


async def test_refusals_are_counted_per_minute_key_and_reason(scene: Scene, database_url: str) -> None:
    notes = scene.run(database_url)
    await notes.start()
    for _ in range(3):
        notes.refused("proj_a", "key_a", "tiny", "rate_limit_exceeded")
    await notes.flush()
    notes.refused("proj_a", "key_a", "tiny", "rate_limit_exceeded")
    notes.refused("", "", "", "server_is_overloaded")
    await notes.flush()
    scene.clock.advance(60)
    notes.refused("proj_a", "key_a", "tiny", "rate_limit_exceeded")
    await notes.close()
    assert await scene.counted() == {
        ("proj_a", "key_a", "rate_limit_exceeded"): 5,
        ("", "", "server_is_overloaded"): 1,
    }
    buckets = await scene.books.rows("SELECT DISTINCT bucket FROM refusal_minute ORDER BY 1")
    assert [row[0].isoformat()[11:16] for row in buckets] == ["12:00", "12:01"]


async def test_in_an_outage_they_wait_on_the_disk_for_the_next_run(scene: Scene, database_url: str) -> None:
    cut_off = scene.run(AWAY)
    cut_off.refused("proj_a", "key_a", "tiny", "server_is_overloaded")
    await cut_off.flush()
    cut_off.refused("proj_a", "key_a", "tiny", "server_is_overloaded")
    await cut_off.close()
    following = scene.run(database_url)
    following.refused("proj_a", "key_a", "tiny", "server_is_overloaded")
    await following.start()
    assert await scene.counted() == {("proj_a", "key_a", "server_is_overloaded"): 3}
    await following.close()
    assert await scene.counted() == {("proj_a", "key_a", "server_is_overloaded"): 3}


async def test_a_spool_that_is_applied_twice_counts_once(scene: Scene, database_url: str) -> None:
    """As after a kill between the commit and the shortening of the file."""
    cut_off = scene.run(AWAY)
    cut_off.refused("proj_a", "key_a", "tiny", "server_is_overloaded")
    await cut_off.close()
    spooled = (scene.directory / "gw-1.notes.spool").read_bytes()
    for _ in range(2):
        (scene.directory / "gw-1.notes.spool").write_bytes(spooled)
        notes = scene.run(database_url)
        await notes.start()
        await notes.close()
    assert await scene.counted() == {("proj_a", "key_a", "server_is_overloaded"): 1}


async def test_without_database_and_disk_they_stay_in_memory(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = scene.run(AWAY)
    notes.refused("proj_a", "key_a", "tiny", "server_is_overloaded")

    def full(records: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(notes._spool, "append", full)
        scene.clock.advance(600)
        await notes.flush()
    await notes.flush()
    (record,) = notes._spool.read()
    assert b'"requests":1' in record
    await notes.close()


async def test_a_spooled_line_that_cannot_be_read_is_set_aside(scene: Scene, database_url: str) -> None:
    spool = Spool(scene.directory, "gw-1.notes")
    spool.append([b'{"not": "counts"}'])
    spool.close()
    notes = scene.run(database_url)
    notes.refused("proj_a", "key_a", "tiny", "server_is_overloaded")
    await notes.start()
    await notes.close()
    assert await scene.counted() == {("proj_a", "key_a", "server_is_overloaded"): 1}
    assert b"not" in (scene.directory / "gw-1.notes.rejected").read_bytes()


async def test_too_many_to_tell_apart_are_counted_together(
    scene: Scene, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REFUSALS_MAX", 2)
    notes = scene.run(database_url)
    for number in range(5):
        notes.refused(f"proj_{number}", "key", "tiny", "rate_limit_exceeded")
    await notes.close()
    found = await scene.counted()
    assert (len(found), sum(found.values())) == (3, 5)
    assert found[("", "", "rate_limit_exceeded")] == 3


async def test_memory_lets_go_of_minutes_that_are_written(scene: Scene, database_url: str) -> None:
    notes = scene.run(database_url)
    notes.refused("proj_a", "key_a", "tiny", "rate_limit_exceeded")
    await notes.flush()
    assert len(notes._counts) == 1
    scene.clock.advance(180)
    await notes.flush()
    assert len(notes._counts) == 0
    await notes.close()


async def test_whom_a_pseudonym_stands_for_is_noted_once(
    scene: Scene, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "USERS_REMEMBERED_MAX", 1)
    notes = scene.run(database_url)
    for user in ("alice", "alice", "bob", None, "nul\0", "x" * 600):
        notes.met_user("proj_a", None if user is None else f"ref_{user[:5]}", user)
    notes.met_user("proj_gone", "ref_carol", "carol")
    await notes.flush()
    notes.met_user("proj_a", "ref_alice", "alice")
    await notes.close()
    rows = await scene.books.rows("SELECT user_ref, end_user FROM user_pseudonym ORDER BY 1")
    assert [tuple(row) for row in rows] == [("ref_alice", "alice"), ("ref_bob", "bob")]
    assert len(notes._known_users) == 1
