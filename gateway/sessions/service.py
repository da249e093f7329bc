"""Signing in, staying signed in, and leaving: rules, and an audit row for each of them.

Place: behind http/admin/sessions.py. It opens its own transactions, since a refusal has to be written down too. It
does not know cookies, nor what a role may do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from gateway.audit.repository import Actor, AuditEntry, AuditRepository
from gateway.clock import Clock
from gateway.db import Database, WriteSession
from gateway.errors import InvalidValue, NotFound
from gateway.ids import Entropy, IdSource
from gateway.keyring import Keyring
from gateway.obs.metrics import Metrics
from gateway.sessions.errors import LoginRefused, SessionOver, TooManyAttempts
from gateway.sessions.passwords import Passwords, check_password
from gateway.sessions.repository import SessionRepository
from gateway.sessions.throttle import ACCOUNT_FREE, ADDRESS_FREE, after_attempt, subjects
from gateway.sessions.tokens import AccessTokens, RefreshTokens
from gateway.sessions.types import EndReason, Grant, Method, Place, SessionRow, Standing
from gateway.tenancy.people.types import User

__all__ = ["GRACE", "IDLE", "LASTS", "SessionService"]

LASTS = timedelta(days=30)
"""However often it is refreshed."""
IDLE = timedelta(days=7)
"""Without a refresh."""
GRACE = timedelta(seconds=10)
"""For the refresh token before the newest: several tabs refresh at once."""
SALT_BYTES = 32
AGENT_CHARS_MAX = 200


class SessionService:
    def __init__(
        self,
        database: Database,
        audit: AuditRepository,
        ring: Keyring,
        clock: Clock,
        ids: IdSource,
        entropy: Entropy,
        metrics: Metrics,
    ) -> None:
        self.repository = SessionRepository()
        self.access = AccessTokens(ring, clock)
        self.passwords = Passwords(entropy)
        self._refresh = RefreshTokens(ring)
        self._database = database
        self._audit = audit
        self._clock = clock
        self._ids = ids
        self._entropy = entropy
        self._logins = metrics.logins
        self._throttle_key = hashlib.sha256(b"tollway logins\0" + ring.keys.derived_root()).digest()

    # Signing in.

    async def login(self, email: str, password: str, place: Place) -> Grant:
        """Raises 401 for what is not a good pair, 429 for who tries too often, whether there is an account or not."""
        await self.count_attempt(email, place)
        async with self._database.read() as session:
            account = await self.repository.account(session, email)
        user, stored = account if account is not None else (None, None)
        if not await self.passwords.proves(password, stored):
            await self.note_refusal(user, place)
            raise LoginRefused
        assert user is not None
        assert stored is not None
        renewed = await self.passwords.hash(password) if self.passwords.is_old(stored) else None
        async with self._database.write() as session:
            account_key, address_key = subjects(self._throttle_key, email, place.address)
            await self.repository.forgive(session, account_key, address_key, self._clock.now())
            if renewed is not None:
                await self.repository.put_password(session, user.id, renewed, self._clock.now())
            return await self.begin(session, user.id, "password", place)

    async def begin(self, session: WriteSession, user_id: str, method: Method, place: Place) -> Grant:
        """For somebody who was proved: a session, with its audit row, in the caller's transaction."""
        now = self._clock.now()
        agent = (place.user_agent or "")[:AGENT_CHARS_MAX] or None
        salt = self._entropy(SALT_BYTES)
        row = SessionRow(
            self._ids.new("session"),
            user_id,
            method,
            now,
            now,
            now + LASTS,
            None,
            0,
            salt,
            place.address,
            agent,
        )
        await self.repository.insert_session(session, row)
        details = {"session_id": row.id, "method": method}
        await self._record(session, _actor(user_id, place), "login.succeeded", ("user", user_id), details)
        standing = await self.repository.standing(session, row.id)
        assert standing is not None, "it was written in this transaction"
        self._logins.labels(result="succeeded").inc()
        return self._granted(standing, self._refresh.make(row))

    async def refresh(self, text: str, place: Place) -> Grant:
        """A new pair for the newest refresh token. One that was used before ends the session: somebody has a copy."""
        token = self._refresh.parse(text)
        if token is None:
            raise SessionOver(is_final=True)
        now = self._clock.now()
        async with self._database.write() as session:
            locked = await self.repository.lock(session, token.session_id)
            standing = await self.repository.standing(session, token.session_id) if locked else None
            if standing is None or not self._refresh.proves(token, standing.session):
                raise SessionOver(is_final=True)
            row = standing.session
            if not _is_open(standing, now) or token.generation > row.generation:
                raise SessionOver(is_final=True)
            behind = row.generation - token.generation
            if behind == 0:
                row = replace(row, generation=row.generation + 1, rotated_at=now)
                await self.repository.rotate(session, row.id, row.generation, now)
            is_reused = behind > 1 or (behind == 1 and now - row.rotated_at > GRACE)
            if is_reused:
                await self._end(session, _actor(standing.user.id, place), standing, "reuse")
        if is_reused:
            self._logins.labels(result="reuse").inc()
            raise SessionOver(is_final=True)
        return self._granted(replace(standing, session=row), self._refresh.make(row))

    # Leaving.

    async def logout(self, access: str | None, refresh: str | None, place: Place) -> None:
        """Of whom either token proves, even one that is too old for anything else; nothing happens otherwise."""
        async with self._database.write() as session:
            standing = await self._named_by(session, access, refresh)
            if standing is not None:
                await self._end(session, _actor(standing.user.id, place), standing, "logout")

    async def logout_everywhere(self, user_id: str, actor: Actor) -> int:
        """How many sessions that were."""
        async with self._database.write() as session:
            count = await self.repository.end_all(session, user_id, "logout_all", self._clock.now())
            details = {"reason": "logout_all", "sessions": count}
            await self._record(session, actor, "logout.succeeded", ("user", user_id), details)
        return count

    async def end(self, user_id: str, session_id: str, actor: Actor) -> None:
        """One of one's own. Raises 404 for any other."""
        async with self._database.write() as session:
            standing = await self.repository.standing(session, session_id)
            if standing is None or standing.user.id != user_id or not _is_open(standing, self._clock.now()):
                raise NotFound("No such session.")
            await self._end(session, actor, standing, "ended")

    async def sessions_of(self, user_id: str, after: str | None, limit: int) -> Sequence[SessionRow]:
        async with self._database.read() as session:
            return await self.repository.sessions_of(session, user_id, self._clock.now(), after, limit)

    # Passwords.

    async def change_password(self, standing: Standing, old: str, new: str, place: Place) -> None:
        """One's own, proved by the old one. The other sessions end."""
        user = standing.user
        check_password(new, user.email, "new_password")
        await self.count_attempt(user.email or user.id, place)
        async with self._database.read() as session:
            stored = await self.repository.password_of(session, user.id)
        if not await self.passwords.proves(old, stored):
            await self.note_refusal(user, place)
            raise InvalidValue("The current password is wrong.", "current_password")
        hashed = await self.passwords.hash(new)
        async with self._database.write() as session:
            keys = subjects(self._throttle_key, user.email or user.id, place.address)
            await self.repository.forgive(session, *keys, self._clock.now())
            actor = _actor(user.id, place)
            await self.put_password(session, actor, user.id, hashed, but=standing.session.id)

    async def put_password(
        self, session: WriteSession, actor: Actor, user_id: str, hashed: str, but: str | None = None
    ) -> None:
        """`hashed` is made before the transaction begins. All sessions besides `but` end."""
        now = self._clock.now()
        await self.repository.put_password(session, user_id, hashed, now)
        count = await self.repository.end_all(session, user_id, "password", now, but)
        details = {"before": {"sessions": count}, "after": {"sessions": 0}}
        await self._record(session, actor, "user.password_changed", ("user", user_id), details)

    # Parts.

    async def count_attempt(self, email: str, place: Place) -> None:
        """Raises 429 for who tries too often."""
        keys, now = subjects(self._throttle_key, email, place.address), self._clock.now()
        async with self._database.write() as session:
            await self.repository.lock_attempts(session, keys, now)
            seen = await self.repository.attempts(session, keys)
            for key, free in zip(keys, (ACCOUNT_FREE, ADDRESS_FREE), strict=True):
                after = after_attempt(seen[key], now, free)
                if after is None:
                    self._logins.labels(result="throttled").inc()
                    raise TooManyAttempts(max((seen[key].blocked_until - now).total_seconds(), 0.001))
                await self.repository.put_attempts(session, key, after)

    async def note_refusal(self, user: User | None, place: Place, code: str = "invalid_login") -> None:
        """What was typed is not written: people type passwords where an address is asked for."""
        self._logins.labels(result="refused").inc()
        actor = _actor(user.id if user is not None else "unknown", place)
        resource = ("user", user.id if user is not None else "unknown")
        details = {"after": {"error_code": code}}
        async with self._database.write() as session:
            await self._record(session, actor, "login.failed", resource, details)

    async def _named_by(
        self, session: WriteSession, access: str | None, refresh: str | None
    ) -> Standing | None:
        token = self._refresh.parse(refresh) if refresh is not None else None
        if token is not None:
            standing = await self.repository.standing(session, token.session_id)
            if standing is not None and self._refresh.proves(token, standing.session):
                return standing
        try:
            named = self.access.session_of(access, even_if_old=True) if access is not None else None
        except SessionOver:
            return None
        return await self.repository.standing(session, named[0]) if named is not None else None

    async def _end(self, session: WriteSession, actor: Actor, standing: Standing, reason: EndReason) -> None:
        row = standing.session
        if await self.repository.end(session, row.id, reason, self._clock.now()):
            details = {"session_id": row.id, "reason": reason}
            await self._record(session, actor, "logout.succeeded", ("user", row.user_id), details)

    def _granted(self, standing: Standing, refresh: str | None) -> Grant:
        row = standing.session
        access, ends = self.access.make(row.id, row.user_id)
        return Grant(standing, access, ends, refresh, min(row.expires_at, row.rotated_at + IDLE))

    async def _record(
        self,
        session: WriteSession,
        actor: Actor,
        action: str,
        resource: tuple[str, str],
        details: dict[str, Any],
    ) -> None:
        await self._audit.append(session, actor, AuditEntry(action, *resource, None, details))


def _is_open(standing: Standing, now: datetime) -> bool:
    row = standing.session
    return (
        standing.is_active and row.ended_at is None and now < row.expires_at and now - row.rotated_at < IDLE
    )


def _actor(user_id: str, place: Place) -> Actor:
    return Actor("user", user_id, place.request_id, place.address)
