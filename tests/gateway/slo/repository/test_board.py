"""The board's order: the least budget first, then the fastest burn, and series without anything last."""

from __future__ import annotations

from datetime import UTC, datetime

from gateway.slo.burn import WINDOWS_S, state_of
from gateway.slo.repository.board import BoardReader
from gateway.slo.repository.states import write_states
from gateway.slo.types import Series, Sums
from tests.gateway.books import Books, books
from tests.gateway.slo.test_matching import objective

__all__ = ["books"]

AT = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)


async def test_order_and_pages(books: Books) -> None:
    sums = {"a": Sums(10, 10), "b": Sums(9, 10), "c": Sums(0, 10), "d": Sums(0, 0)}
    states = [
        state_of(
            Series(f"proj_{name}", "m", "interactive", sli),
            objective(sli="ttft"),
            dict.fromkeys(WINDOWS_S, found),
        )
        for name, found in sums.items()
        for sli in ("ttft", "tpot")
    ]
    async with books.database.transaction() as connection:
        await write_states(connection, states, AT)
    reader = BoardReader()
    async with books.database.read() as session:
        whole = await reader.page(session, AT, None, None, 0, 10)
        assert [line.tenant_id for line in whole] == ["proj_c", "proj_b", "proj_a", "proj_d"]
        assert [len(line.states) for line in whole] == [2] * 4
        second = await reader.page(session, AT, None, ["m"], 1, 2)
        assert [line.tenant_id for line in second] == ["proj_b", "proj_a"]
        some = await reader.page(session, AT, ["proj_d", "proj_x"], None, 0, 10)
        assert [(line.tenant_id, line.budget_left, line.ttft_p95_us) for line in some] == [
            ("proj_d", None, None)
        ]
        assert await reader.page(session, AT, [], None, 0, 10) == []
