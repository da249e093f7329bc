"""The admin API's readings of tenants and keys: paged, scoped to their tenant, without what is gone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from gateway.db import Database
from gateway.ids import KeyId, TenantId
from gateway.tenancy.projects.repository import PermissionView, ProjectRepository

A, B = TenantId("a"), TenantId("b")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    connection = await asyncpg.connect(database_url)
    for name, status in ((A, "active"), (B, "active"), ("c", "archived")):
        await connection.execute("INSERT INTO tenant (id, name, status) VALUES ($1, $1, $2)", name, status)
    await connection.execute("INSERT INTO service_account (tenant_id, id, name) VALUES ('a', 'sa', 'robot')")
    for number, revoked in ((1, False), (2, False), (3, True)):
        await connection.execute(
            "INSERT INTO api_key (tenant_id, id, name, public_id, secret_hmac, pepper_id, service_account_id, revoked_at)"
            " VALUES ('a', $1, 'k', $1, decode(repeat('00', 32), 'hex'), 'p1', $2, CASE WHEN $3 THEN now() END)",
            f"k{number}", "sa" if number == 2 else None, revoked,
        )  # fmt: skip
    await connection.close()
    opened = Database(database_url, name="test", pool_size=1)
    yield opened
    await opened.close()


async def test_projects_newest_first_without_the_archived(database: Database) -> None:
    repository = ProjectRepository()
    async with database.read() as session:
        assert [p.id for p in await repository.projects(session, None, 9, False)] == ["b", "a"]
        assert [p.id for p in await repository.projects(session, "b", 9, False)] == ["a"]
        assert [p.id for p in await repository.projects(session, None, 1, True)] == ["c"]
        assert await repository.project(session, TenantId("nobody")) is None


async def test_keys_of_one_tenant(database: Database) -> None:
    repository = ProjectRepository()
    async with database.read() as session:
        keys = await repository.keys(session, A, None, 9)
        assert [(key.id, key.account.name if key.account else None) for key in keys] == [
            ("k2", "robot"),
            ("k1", None),
        ]
        assert await repository.keys(session, B, None, 9) == []
        assert await repository.key(session, B, KeyId("k1")) is None
        assert await repository.key(session, A, KeyId("k3")) is None
        assert [account.id for account in await repository.accounts(session, A, None, 9)] == ["sa"]
        assert await repository.accounts(session, A, "sa", 9) == []


async def test_permissions(database: Database) -> None:
    repository = ProjectRepository()
    async with database.write() as session:
        await repository.put_permission(session, A, "allow_list", ["y", "x", "x"])
        await repository.put_permission(session, A, "deny_list", ["z", "x"])
    async with database.read() as session:
        assert await repository.permission(session, A) == PermissionView("deny_list", ("x", "z"))
        assert await repository.permission(session, B) is None
    async with database.write() as session:
        await repository.delete_permission(session, A)
        assert await repository.locked_permission(session, A) is None
