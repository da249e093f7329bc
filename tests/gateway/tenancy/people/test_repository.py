"""Lists of who administers are keyset-paged, and what is deleted is not in them."""

from __future__ import annotations

from datetime import UTC, datetime

from gateway.db import Database
from gateway.ids import KeyId, TenantId, UserId
from gateway.tenancy.people.repository import PeopleRepository
from gateway.tenancy.people.types import AdminKeyRow, User

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def test_pages(database_url: str) -> None:
    database, people = Database(database_url, name="test", pool_size=1), PeopleRepository()
    try:
        async with database.write() as session:
            for number in range(5):
                user = User(UserId(f"user_{number}"), f"{number}@example.com", "u", "viewer", NOW)
                assert await people.insert_user(session, user)
                key = AdminKeyRow(
                    KeyId(f"key_{number}"), f"public{number}", bytes(32), "p1", "viewer", None, None, user.id
                )
                assert await people.insert_admin_key(session, key, "k")
                assert not await people.insert_admin_key(session, key, "k")
            again = User(UserId("user_x"), "0@example.com", "u", "viewer", NOW)
            assert not await people.insert_user(session, again)
            await people.delete_user(session, UserId("user_3"), NOW)
            await people.revoke_admin_key(session, KeyId("key_3"), NOW)
        async with database.read() as session:
            pages = [await people.users(session, after, 2, ()) for after in (None, "user_2", "user_0")]
            keys = [
                [key.id for key in await people.admin_keys(session, after, 2, ascending=True)]
                for after in (None, "key_1", "key_4")
            ]
            found = await people.users(session, None, 9, ["1@EXAMPLE.com"])
            row = await people.admin_key_by_public_id(session, "public1")
            assert await people.user(session, "user_3") is None
            assert await people.member(session, TenantId("proj_none"), "user_1") is None
    finally:
        await database.close()
    assert [[user.id for user in page] for page in pages] == [["user_4", "user_2"], ["user_1", "user_0"], []]
    assert keys == [["key_0", "key_1"], ["key_2", "key_4"], []]
    assert [user.id for user in found] == ["user_1"]
    assert row is not None
    assert (row.role, row.user_role, row.user_is_active, row.projects) == ("viewer", "viewer", True, {})
