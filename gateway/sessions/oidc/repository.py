"""All SQL of OpenID sign-in: the provider that is configured, and whose identity is which user's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, select, update
from sqlalchemy.dialects.postgresql import insert as pg_insert

from gateway.db import ReadSession, WriteConnection, WriteSession
from gateway.sessions.models import IdentityProvider, UserIdentity
from gateway.sessions.oidc.types import ProviderConfig

__all__ = ["OidcRepository", "reseal_provider", "sealed_provider"]

_Session = ReadSession | WriteSession
ONLY = "default"
"""The id of the one provider that there can be."""


class OidcRepository:
    async def provider(self, session: _Session) -> tuple[ProviderConfig, bytes | None] | None:
        """As configured, without its secret, and the secret, sealed."""
        row = await session.get(IdentityProvider, ONLY)
        if row is None:
            return None
        config = ProviderConfig(
            issuer=row.issuer,
            client_id=row.client_id,
            name=row.name,
            origin=row.origin,
            scopes=tuple(row.scopes),
            role_claim=row.role_claim,
            role_map=row.role_map,
            registers=row.registers,
            default_role=row.default_role,  # type: ignore[arg-type]  # the table's check constraint lists the same roles
            is_enabled=row.is_enabled,
        )
        return config, row.client_secret_sealed

    async def put_provider(
        self, session: WriteSession, config: ProviderConfig, sealed: bytes | None, at: datetime
    ) -> None:
        values = {
            "issuer": config.issuer,
            "client_id": config.client_id,
            "client_secret_sealed": sealed,
            "name": config.name,
            "origin": config.origin,
            "scopes": list(config.scopes),
            "role_claim": config.role_claim,
            "role_map": dict(config.role_map),
            "registers": config.registers,
            "default_role": config.default_role,
            "is_enabled": config.is_enabled,
            "updated_at": at,
        }
        await session.execute(
            pg_insert(IdentityProvider)
            .values(id=ONLY, **values)
            .on_conflict_do_update(index_elements=[IdentityProvider.id], set_=values)
        )

    async def delete_provider(self, session: WriteSession) -> None:
        await session.execute(delete(IdentityProvider))

    async def user_of(self, session: _Session, issuer: str, subject: str) -> str | None:
        query = select(UserIdentity.user_id).where(
            UserIdentity.issuer == issuer, UserIdentity.subject == subject
        )
        return await session.scalar(query)

    async def link(
        self, session: WriteSession, issuer: str, subject: str, user_id: str, at: datetime
    ) -> None:
        """Whoever an identity was before: only somebody without a user behind them is linked anew."""
        values = {"user_id": user_id, "linked_at": at}
        await session.execute(
            pg_insert(UserIdentity)
            .values(issuer=issuer, subject=subject, **values)
            .on_conflict_do_update(index_elements=[UserIdentity.issuer, UserIdentity.subject], set_=values)
        )


async def sealed_provider(connection: WriteConnection) -> Sequence[tuple[str, bytes]]:
    """Owner and secret, for the rotation of master keys."""
    query = select(IdentityProvider.id, IdentityProvider.client_secret_sealed).where(
        IdentityProvider.client_secret_sealed.is_not(None)
    )
    return [(row[0], row[1]) for row in await connection.execute(query) if row[1] is not None]


async def reseal_provider(connection: WriteConnection, old: bytes, fresh: bytes) -> None:
    await connection.execute(
        update(IdentityProvider)
        .where(IdentityProvider.client_secret_sealed == old)
        .values(client_secret_sealed=fresh)
    )
