"""A ledger with everything that an export has to get right: corrections, credits, late events, every status."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gateway.db import Database
from tests.gateway.books import books
from tests.gateway.exports.ledger import Ledger

__all__ = ["books"]


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """As the application's role sees it."""
    database = Database(database_url, name="test-exports", pool_size=3)
    yield database
    await database.close()


@pytest.fixture
async def ledger(books: object) -> Ledger:
    """Empty; `fill` writes to it."""
    return await Ledger.of(books)  # type: ignore[arg-type]  # the fixture's own type
