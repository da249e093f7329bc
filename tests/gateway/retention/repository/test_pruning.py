"""The database's own conditions: what the application cannot delete even if it asks."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.exc import DBAPIError

from gateway.db import Database
from gateway.retention.repository.pruning import drop_usage_partition, oldest_usage_months, prune_guards

OLD = datetime(2025, 3, 10, 12, tzinfo=UTC)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="test-pruning", pool_size=1)
    yield database
    await database.close()


async def test_the_database_itself_refuses_to_forget_guards_too_early(database: Database) -> None:
    with pytest.raises(DBAPIError, match="may still be needed"):
        async with database.transaction() as connection:
            await prune_guards(connection, timedelta(days=40), 10)


async def test_events_are_kept_for_two_months_whatever_is_asked(database: Database) -> None:
    with pytest.raises(DBAPIError, match="62 days at least"):
        async with database.transaction() as connection:
            await drop_usage_partition(connection, OLD.date(), timedelta(days=30))


async def test_a_month_that_is_not_there_or_not_over_stays_quietly(database: Database) -> None:
    async with database.transaction() as connection:
        months = await oldest_usage_months(connection)
        assert months == sorted(months)
        assert months
        for month in (OLD.date(), months[-1]):
            assert not await drop_usage_partition(connection, month, timedelta(days=62))
