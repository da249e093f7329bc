"""Charts of samples: averages per step, speeds from counters, gaps where an engine was started anew."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gateway.pool.samples import SampleRow, charted, write_samples
from tests.gateway.books import Books, books

__all__ = ["books"]

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)


def row(second: int, tokens: int | None, waiting: int = 0, replica: str = "r1", **fields: int) -> SampleRow:
    values = {"running": 1, "preemptions": 0} | fields
    return SampleRow(
        AT + timedelta(seconds=second),
        replica,
        "pool_a",
        values["running"],
        waiting,
        0.5,
        values["preemptions"],
        tokens,
    )


async def test_a_chart(books: Books) -> None:
    samples = [
        *(row(10 * n, 100 * n, waiting=n, preemptions=n) for n in range(6)),
        row(60, 20),  # started anew
        row(70, 70),
        row(0, None, replica="r2"),
    ]
    async with books.database.transaction() as connection:
        await write_samples(connection, samples)
        await write_samples(connection, samples)
    async with books.database.read() as session:
        points = await charted(session, "pool_a", AT, AT + timedelta(minutes=2), 30, 100)
        assert [(int((one.bucket - AT).total_seconds()), one.replica_id) for one in points] == [
            (0, "r1"),
            (0, "r2"),
            (30, "r1"),
            (60, "r1"),
        ]
        first, other, second, third = points
        assert (first.waiting, first.waiting_max, first.preemptions) == (1, 2, 2)
        assert first.tokens_per_s == second.tokens_per_s == 10
        assert third.tokens_per_s == 5
        assert other.tokens_per_s is None
        assert len(await charted(session, "pool_a", AT, AT + timedelta(minutes=2), 30, 2)) == 2
        assert await charted(session, "pool_b", AT, AT + timedelta(minutes=2), 30, 2) == []
