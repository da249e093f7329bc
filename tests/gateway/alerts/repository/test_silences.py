"""Silences: what they cover, those that hold now, ended early, and pages of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from gateway.alerts.repository.silences import Silence, SilenceRepository, holding_silences
from tests.gateway.books import Books, books

__all__ = ["books"]

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
ALL = Silence("silence_0", None, None, None, "why", "who", NOW, NOW + HOUR, NOW)


def test_what_a_silence_covers() -> None:
    assert ALL.covers("scope", None)
    assert replace(ALL, scope="scope").covers("scope", "proj_a")
    assert not replace(ALL, scope="scope").covers("other", None)
    assert not replace(ALL, tenant_id="proj_a").covers("scope", None)


async def test_those_that_hold_now(books: Books) -> None:
    repository = SilenceRepository()
    async with books.database.write() as session:
        for number, (source, begins) in enumerate([(None, 0), ("a", 0), ("b", 0), ("a", -2), ("a", 2)]):
            starts_at = NOW + begins * HOUR
            made = replace(
                ALL, id=f"silence_{number}", source=source, starts_at=starts_at, ends_at=starts_at + HOUR
            )
            await repository.insert(session, made)
    async with books.database.transaction() as connection:
        found = await holding_silences(connection, "a", NOW)
        assert [one.id for one in found] == ["silence_0", "silence_1"]
    async with books.database.write() as session:
        await repository.end(session, "silence_1", NOW + HOUR / 2)
        await repository.end(session, "silence_4", NOW + HOUR / 2)
    async with books.database.read() as reading:
        ended = await repository.silence(reading, "silence_1")
        never = await repository.silence(reading, "silence_4")
        assert ended is not None
        assert never is not None
        assert (ended.starts_at, ended.ends_at) == (NOW, NOW + HOUR / 2)
        assert never.starts_at == never.ends_at
        over = await repository.page(reading, True, NOW + HOUR / 2, None, 10)
        assert {one.id for one in over} == {"silence_1", "silence_3", "silence_4"}
        first = await repository.page(reading, None, NOW, None, 3)
        rest = await repository.page(reading, None, NOW, first[-1].id, 3)
        assert len({one.id for one in [*first, *rest]}) == 5
