"""A key in the database: an answer is kept by its own request only."""

from datetime import UTC, datetime, timedelta

from gateway.idempotency.repository import Key, Owner, claim, forget, keep
from gateway.ids import RequestId, TenantId
from tests.gateway.books import Books, books

__all__ = ["books"]

NOW = datetime(2026, 11, 29, tzinfo=UTC)
KEY = Key(TenantId("proj_a"), b"k" * 32, b"b" * 32, RequestId("req_1"))
OTHER = Key(TenantId("proj_a"), b"k" * 32, b"c" * 32, RequestId("req_2"))


async def test_only_the_owner_keeps_and_frees(books: Books) -> None:
    await books.run("INSERT INTO gateway_instance (instance_id, gateway_id) VALUES ('run_1', 'a')")
    kept = timedelta(days=1)
    async with books.database.transaction() as connection:
        assert await claim(connection, KEY, "run_1", now=NOW, kept=kept, silent_s=30) is None
        await forget(connection, OTHER)
        await keep(connection, OTHER, b"not mine")
        owner = await claim(connection, OTHER, "run_1", now=NOW, kept=kept, silent_s=30)
        assert owner == Owner(KEY.body_hash, KEY.request_id, None)
        await keep(connection, KEY, b"sealed")
        await forget(connection, KEY)
        owner = await claim(connection, OTHER, "run_1", now=NOW, kept=kept, silent_s=30)
        assert owner == Owner(KEY.body_hash, KEY.request_id, b"sealed")
