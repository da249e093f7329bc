"""Charts read the rows of their own width, for all tenants together the rows that were counted for them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gateway.ledger.buckets import Width, bucket_page
from gateway.ledger.types import Timings
from gateway.slo.repository.series import Selection, SeriesReader
from gateway.slo.types import Sums
from tests.gateway.books import Books, books
from tests.gateway.usage_events import settled, write

__all__ = ["books"]

AT = datetime(2026, 11, 20, 12, 30, 10, tzinfo=UTC)


@pytest.mark.parametrize("width", ["1m", "1h", "1d"])
async def test_each_width(books: Books, width: Width) -> None:
    timings = Timings(ttft_ms=300, e2e_ms=1_000, tpot_us=10_000)
    tenants = [{"tenant_id": f"proj_{name}", "is_stream": True} for name in "aab"]
    events = [
        settled(n, AT + timedelta(days=n // 2), asked=asked, timings=timings)
        for n, asked in enumerate(tenants)
    ]
    await write(books.database, events)
    start = int(AT.timestamp()) // 86_400 * 86_400
    page = bucket_page(start, start + 2 * 86_400, width, 10_000)
    reader, latencies = SeriesReader(), ("ttft", "e2e")
    async with books.database.read() as session:
        whole = await reader.points(session, page.buckets, width, Selection("interactive"), latencies)
        mine = await reader.points(
            session,
            page.buckets,
            width,
            Selection("interactive", ["proj_b"], ["tiny"], ["pool_a"]),
            latencies,
        )
    assert [point.histograms["ttft"] for point in whole.values()] in (
        [{300_000: 2}, {300_000: 1}],
        [{300_000: 1}, {300_000: 2}],
    )
    assert sum((point.counts["availability", 0] for point in whole.values()), Sums()) == Sums(3, 3)
    assert all(point.histograms["tpot"] == {} for point in whole.values())
    (point,) = mine.values()
    assert (point.histograms["e2e"], point.counts["ttft", 800_000]) == ({1_000_000: 1}, Sums(1, 1))
