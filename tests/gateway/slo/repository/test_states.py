"""States are replaced as a whole; while another worker writes them, nobody waits."""

from __future__ import annotations

from datetime import UTC, datetime

from gateway.slo.burn import WINDOWS_S, state_of
from gateway.slo.repository.states import write_states
from gateway.slo.types import Series, Sums
from tests.gateway.books import Books, books
from tests.gateway.slo.test_matching import objective

__all__ = ["books"]

AT = datetime(2026, 11, 20, tzinfo=UTC)


async def test_states_are_replaced(books: Books) -> None:
    sums = dict.fromkeys(WINDOWS_S, Sums(5, 5))
    series = [Series(f"proj_{name}", "m", "interactive", "ttft") for name in "abc"]
    states = [state_of(one, objective(), sums) for one in series]
    for some in (states[:2], states[1:]):
        async with books.database.transaction() as connection:
            await write_states(connection, some, AT)
    rows = await books.rows("SELECT tenant_id FROM objective_state ORDER BY 1")
    assert [row[0] for row in rows] == ["proj_b", "proj_c"]
    async with books.database.transaction() as first:
        await write_states(first, states, AT)
        async with books.database.transaction() as second:
            await write_states(second, [], AT)
    assert await books.count("objective_state") == 3
