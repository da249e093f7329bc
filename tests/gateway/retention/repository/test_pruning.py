"""The database's own conditions: what the application cannot delete even if it asks."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.exc import DBAPIError

from gateway.db import Database
from gateway.retention.repository.pruning import (
    drop_usage_partition,
    oldest_usage_months,
    prune_batches,
    prune_guards,
    prune_idempotent_requests,
    prune_logins,
    prune_sessions,
)

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


async def test_idempotency_keys_go_when_they_have_expired_in_bounded_steps(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.exec_driver_sql("INSERT INTO tenant (id, name) VALUES ('proj_a', 'a')")
        await connection.exec_driver_sql(
            "INSERT INTO idempotent_request (tenant_id, key_hash, body_hash, request_id, instance_id, expires_at)"
            " SELECT 'proj_a', sha256(n::text::bytea), sha256(''), 'req', 'run', now() + (n - 2.5) * interval '1 hour'"
            " FROM generate_series(0, 5) n"
        )
    async with database.transaction() as connection:
        steps = [await prune_idempotent_requests(connection, 2) for _ in range(3)]
        left = (await connection.exec_driver_sql("SELECT count(*) FROM idempotent_request")).scalar_one()
    assert (steps, left) == ([2, 1, 0], 3)


async def test_batches_go_some_time_after_they_have_ended(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.exec_driver_sql("INSERT INTO tenant (id, name) VALUES ('proj_a', 'a')")
        for number, ended in enumerate(("NULL", "now()", "now() - interval '31 days'")):
            await connection.exec_driver_sql(
                "INSERT INTO batch (tenant_id, id, key_id, endpoint, input_file_id, completion_window, created_at,"
                f" expires_at, failed_at) VALUES ('proj_a', 'batch_{number}', 'k', 'e', 'f', '24h',"
                f" now() - interval '40 days', now(), {ended})"
            )
        assert await prune_batches(connection, timedelta(days=30), 10) == 1
        left = await connection.exec_driver_sql("SELECT id FROM batch ORDER BY id")
        assert [row[0] for row in left] == ["batch_0", "batch_1"]


async def test_sessions_and_attempts_to_sign_in_go(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.exec_driver_sql(
            "INSERT INTO organization_user (id, name, role) VALUES ('user_a', 'a', 'viewer')"
        )
        await connection.exec_driver_sql(
            "INSERT INTO console_session (id, user_id, method, salt, created_at, rotated_at, expires_at)"
            " SELECT 's' || n, 'user_a', 'password', '', now(), now(), now() - n * interval '10 days'"
            " FROM generate_series(1, 5) n"
        )
        await connection.exec_driver_sql(
            "INSERT INTO login_attempts (subject, failures, last_at, blocked_until)"
            " SELECT n::text::bytea, 1, now() - n * interval '10 hours', now() FROM generate_series(1, 4) n"
        )
    async with database.transaction() as connection:
        assert [await prune_sessions(connection, timedelta(days=30), 1) for _ in range(4)] == [1, 1, 1, 0]
        assert [await prune_logins(connection, 10) for _ in range(2)] == [2, 0]
