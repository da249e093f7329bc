"""Marks look at the newest end of what they read."""

from __future__ import annotations

from datetime import timedelta

from gateway.db import Database
from gateway.live.repository.marks import LOOKS_BACK, Marks, read_marks
from tests.conftest import execute
from tests.gateway.tenancy.support import RealStartClock


async def test_what_is_old_is_not_read(database_url: str) -> None:
    now, database = RealStartClock().now(), Database(database_url, name="test-marks", pool_size=1)
    for id_, age in (("new", timedelta(0)), ("old", LOOKS_BACK + timedelta(minutes=1))):
        execute(
            database_url,
            "INSERT INTO alert_record (id, type, payload, occurred_at)"
            f" VALUES ('{id_}', 't', '{{}}', '{(now - age).isoformat()}')",
        )
    async with database.read() as session:
        marks = await read_marks(session, now)
    assert marks.alerts == {(None, "new")}
    assert (marks.usage, marks.audit, marks.slo) == (Marks().usage, Marks().audit, None)
    await database.close()
