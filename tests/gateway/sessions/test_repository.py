"""What the tables themselves guarantee."""

from __future__ import annotations

import pytest

from gateway.db import DATABASE_ERRORS
from gateway.sessions.throttle import Attempts
from tests.gateway.sessions.conftest import Desk


async def test_a_session_ends_once(desk: Desk) -> None:
    await desk.user()
    row = (await desk.login()).standing.session
    async with desk.database.write() as session:
        assert await desk.sessions.repository.end(session, row.id, "logout", desk.clock.now())
        assert not await desk.sessions.repository.end(session, row.id, "reuse", desk.clock.now())
        assert not await desk.sessions.repository.lock(session, "session_none")
    open_ = (await desk.login()).standing.session
    with pytest.raises(DATABASE_ERRORS):
        await _end_without_a_reason(desk, open_.id)


async def test_attempts_are_kept_per_subject(desk: Desk) -> None:
    repository, now = desk.sessions.repository, desk.clock.now()
    async with desk.database.write() as session:
        await repository.lock_attempts(session, (b"b", b"a"), now)
        await repository.put_attempts(session, b"a", Attempts(3, now, now))
        await repository.put_attempts(session, b"b", Attempts(5, now, now))
    async with desk.database.write() as session:
        await repository.lock_attempts(session, (b"a", b"b"), now)
        await repository.forgive(session, b"a", b"b", now)
    async with desk.database.read() as session:
        assert await repository.attempts(session, (b"a", b"b")) == {b"b": Attempts(4, now, now)}


async def _end_without_a_reason(desk: Desk, session_id: str) -> None:
    async with desk.database.write() as session:
        await desk.sessions.repository.end(session, session_id, None, desk.clock.now())  # type: ignore[arg-type]
