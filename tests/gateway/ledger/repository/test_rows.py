"""Sets of rows: every column by name, and a newer schema may have more of them."""

from datetime import UTC, datetime

from gateway.ledger.models import Hold as HoldTable
from gateway.ledger.repository.holds import insert_holds
from gateway.ledger.repository.rows import insert_recordset
from gateway.ledger.types import Hold
from tests.gateway.books import Books
from tests.gateway.ledger.builders import reservation

NOW = datetime(2026, 11, 29, tzinfo=UTC)


def test_every_column_but_the_skipped_is_named() -> None:
    statement = insert_recordset(HoldTable, "rows", skip=("takes",))
    assert "request_id, instance_id" in statement
    assert "takes" not in statement
    assert "*" not in statement


async def test_a_column_of_a_newer_schema_keeps_its_default(books: Books) -> None:
    await books.run("ALTER TABLE hold ADD COLUMN newer text NOT NULL DEFAULT 'kept'")
    async with books.database.transaction() as connection:
        await insert_holds(connection, "run", [Hold(reservation("req_1"), 1, (), NOW, NOW)], {})
    assert await books.value("SELECT newer FROM hold") == "kept"
