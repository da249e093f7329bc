"""One provider at most, and one user behind each of its names."""

from __future__ import annotations

from dataclasses import replace

from gateway.sessions.oidc.repository import OidcRepository, reseal_provider, sealed_provider
from gateway.sessions.oidc.types import ProviderConfig
from tests.gateway.sessions.conftest import Desk, desk

__all__ = ["desk"]

CONFIG = ProviderConfig("https://p.example", "client", "P", "https://c.example", role_map={"ops": "admin"})


async def test_the_provider_is_replaced_and_its_secret_resealed(desk: Desk) -> None:
    repository, now = OidcRepository(), desk.clock.now()
    async with desk.database.write() as session:
        assert await repository.provider(session) is None
        await repository.put_provider(session, CONFIG, b"one", now)
        await repository.put_provider(session, replace(CONFIG, name="Q"), b"two", now)
        assert await repository.provider(session) == (replace(CONFIG, name="Q"), b"two")
    async with desk.database.transaction() as connection:
        assert await sealed_provider(connection) == [("default", b"two")]
        await reseal_provider(connection, b"other", b"never")
        await reseal_provider(connection, b"two", b"three")
        assert await sealed_provider(connection) == [("default", b"three")]
    async with desk.database.write() as session:
        await repository.delete_provider(session)
        assert await repository.provider(session) is None


async def test_a_name_is_one_users_until_the_user_goes(desk: Desk) -> None:
    repository, now = OidcRepository(), desk.clock.now()
    ann, bob = await desk.user(), await desk.user("bob@example.com")
    async with desk.database.write() as session:
        await repository.link(session, CONFIG.issuer, "s", ann.id, now)
        assert await repository.user_of(session, CONFIG.issuer, "s") == ann.id
        assert await repository.user_of(session, "https://other.example", "s") is None
        await repository.link(session, CONFIG.issuer, "s", bob.id, now)
        assert await repository.user_of(session, CONFIG.issuer, "s") == bob.id
        await desk.people.repository.delete_user(session, bob.id, now)
        assert await repository.user_of(session, CONFIG.issuer, "s") is None
