"""The session's servers: every test gets its own database and an empty cache."""

import asyncpg
import pytest
import redis


@pytest.mark.parametrize("turn", [1, 2])
async def test_each_test_has_a_fresh_database(database_url: str, turn: int) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        assert await connection.fetchval("SELECT to_regclass('only_here')") is None
        await connection.execute(f"CREATE TABLE only_here AS SELECT {turn} AS turn")
    finally:
        await connection.close()


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_has_an_empty_cache(cache_url: str, turn: int) -> None:
    with redis.Redis.from_url(cache_url) as client:
        assert client.dbsize() == 0
        client.set("only-here", turn)
