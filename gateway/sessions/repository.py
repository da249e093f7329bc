"""All SQL of console sessions. Nothing here decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as pg_insert

from gateway.db import ReadSession, WriteSession
from gateway.ids import TenantId, UserId
from gateway.sessions.models import ConsoleSession, LoginAttempts, UserPassword
from gateway.sessions.throttle import Attempts
from gateway.sessions.types import EndReason, SessionRow, Standing
from gateway.tenancy.models import OrganizationUser, ProjectMember
from gateway.tenancy.people.types import User
from gateway.tenancy.principal import ProjectRole

__all__ = ["SessionRepository"]

_Session = ReadSession | WriteSession


class SessionRepository:
    # Passwords.

    async def account(self, session: _Session, email: str) -> tuple[User, str | None] | None:
        """Who has this address, and their password's hash."""
        query = (
            select(OrganizationUser, UserPassword.hash)
            .outerjoin(UserPassword, UserPassword.user_id == OrganizationUser.id)
            .where(OrganizationUser.email == email.strip().lower(), OrganizationUser.deleted_at.is_(None))
        )
        found = (await session.execute(query)).one_or_none()
        return (_user(found[0]), found[1]) if found is not None else None

    async def password_of(self, session: _Session, user_id: str) -> str | None:
        return await session.scalar(select(UserPassword.hash).where(UserPassword.user_id == user_id))

    async def put_password(self, session: WriteSession, user_id: str, hashed: str, at: datetime) -> None:
        values = {"hash": hashed, "updated_at": at}
        await session.execute(
            pg_insert(UserPassword)
            .values(user_id=user_id, **values)
            .on_conflict_do_update(index_elements=[UserPassword.user_id], set_=values)
        )

    # Sessions.

    async def insert_session(self, session: WriteSession, row: SessionRow) -> None:
        await session.execute(
            insert(ConsoleSession).values(
                id=row.id,
                user_id=row.user_id,
                method=row.method,
                salt=row.salt,
                generation=row.generation,
                address=row.address,
                user_agent=row.user_agent,
                created_at=row.created_at,
                rotated_at=row.rotated_at,
                expires_at=row.expires_at,
            )
        )

    async def standing(self, session: _Session, session_id: str) -> Standing | None:
        query = (
            select(ConsoleSession, OrganizationUser)
            .join(OrganizationUser, OrganizationUser.id == ConsoleSession.user_id)
            .where(ConsoleSession.id == session_id)
        )
        found = (await session.execute(query)).one_or_none()
        if found is None:
            return None
        row, user = found
        projects = await self._memberships(session, user.id)
        return Standing(_row(row), _user(user), user.deleted_at is None, projects)

    async def lock(self, session: WriteSession, session_id: str) -> bool:
        """False if there is none."""
        query = select(ConsoleSession.id).where(ConsoleSession.id == session_id).with_for_update()
        return await session.scalar(query) is not None

    async def rotate(self, session: WriteSession, session_id: str, generation: int, at: datetime) -> None:
        changed = {"generation": generation, "rotated_at": at}
        await session.execute(update(ConsoleSession).where(ConsoleSession.id == session_id).values(changed))

    async def end(self, session: WriteSession, session_id: str, reason: EndReason, at: datetime) -> bool:
        """False if it had ended already."""
        query = (
            update(ConsoleSession)
            .where(ConsoleSession.id == session_id, ConsoleSession.ended_at.is_(None))
            .values(ended_at=at, end_reason=reason)
            .returning(ConsoleSession.id)
        )
        return await session.scalar(query) is not None

    async def end_all(
        self, session: WriteSession, user_id: str, reason: EndReason, at: datetime, but: str | None = None
    ) -> int:
        """How many there were, besides `but`."""
        query = (
            update(ConsoleSession)
            .where(
                ConsoleSession.user_id == user_id,
                ConsoleSession.ended_at.is_(None),
                ConsoleSession.id != (but or ""),
            )
            .values(ended_at=at, end_reason=reason)
            .returning(ConsoleSession.id)
        )
        return len((await session.scalars(query)).all())

    async def sessions_of(
        self, session: ReadSession, user_id: str, now: datetime, after: str | None, limit: int
    ) -> list[SessionRow]:
        """Those that have not ended, newest first."""
        query = (
            select(ConsoleSession)
            .where(
                ConsoleSession.user_id == user_id,
                ConsoleSession.ended_at.is_(None),
                ConsoleSession.expires_at > now,
            )
            .order_by(ConsoleSession.id.desc())
            .limit(limit)
        )
        if after is not None:
            query = query.where(ConsoleSession.id < after)
        return [_row(row) for row in await session.scalars(query)]

    # Attempts to sign in.

    async def lock_attempts(self, session: WriteSession, subjects: Sequence[bytes], now: datetime) -> None:
        """A row for each, and nobody else changes them until the transaction ends."""
        rows = [
            {"subject": one, "failures": 0, "last_at": now, "blocked_until": now} for one in sorted(subjects)
        ]
        await session.execute(pg_insert(LoginAttempts).values(rows).on_conflict_do_nothing())
        await session.execute(
            select(LoginAttempts.subject)
            .where(LoginAttempts.subject.in_(subjects))
            .order_by(LoginAttempts.subject)
            .with_for_update()
        )

    async def attempts(self, session: _Session, subjects: Sequence[bytes]) -> Mapping[bytes, Attempts]:
        rows = await session.scalars(select(LoginAttempts).where(LoginAttempts.subject.in_(subjects)))
        return {row.subject: Attempts(row.failures, row.last_at, row.blocked_until) for row in rows}

    async def put_attempts(self, session: WriteSession, subject: bytes, attempts: Attempts) -> None:
        changed = {
            "failures": attempts.failures,
            "last_at": attempts.last_at,
            "blocked_until": attempts.blocked_until,
        }
        await session.execute(update(LoginAttempts).where(LoginAttempts.subject == subject).values(changed))

    async def forgive(self, session: WriteSession, account: bytes, address: bytes, at: datetime) -> None:
        """The account starts anew; the address gets this one attempt back, or one good account would free it to try
        others for ever."""
        await session.execute(delete(LoginAttempts).where(LoginAttempts.subject == account))
        await session.execute(
            update(LoginAttempts)
            .where(LoginAttempts.subject == address)
            .values(failures=func.greatest(LoginAttempts.failures - 1, 0), blocked_until=at)
        )

    async def _memberships(self, session: _Session, user_id: str) -> Mapping[TenantId, ProjectRole]:
        query = select(ProjectMember.tenant_id, ProjectMember.role).where(ProjectMember.user_id == user_id)
        return {
            TenantId(tenant_id): "owner" if role == "owner" else "member"
            for tenant_id, role in await session.execute(query)
        }


def _user(row: OrganizationUser) -> User:
    return User(UserId(row.id), row.email, row.name, row.role, row.created_at)  # type: ignore[arg-type]  # the table's check constraint lists the same roles


def _row(row: ConsoleSession) -> SessionRow:
    return SessionRow(
        row.id,
        row.user_id,
        row.method,  # type: ignore[arg-type]  # the table's check constraint lists the same methods
        row.created_at,
        row.rotated_at,
        row.expires_at,
        row.ended_at,
        row.generation,
        row.salt,
        row.address,
        row.user_agent,
    )
