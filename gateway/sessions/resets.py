"""A new password for somebody who has lost theirs: by a link that an owner makes, or by a code that is mailed to them.

Place: beside service.py. A token is computed, not stored: from the user, its end and the hash of the password that it is to
replace, with a key that is derived from the master keys. So it is worth nothing once that password is another, by this
token or any other way, and nobody can make one who can read the database alone. What is mailed is a code to be typed where
it was asked for, not a link: whoever asks says by their request's Host where such a link would lead. It does not know how
a code reaches anybody.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from gateway.audit.repository import Actor, AuditEntry, AuditRepository
from gateway.clock import Clock
from gateway.db import Database, ReadSession, WriteSession
from gateway.errors import Conflict, NotFound
from gateway.keyring import Keyring
from gateway.sessions.passwords import check_password
from gateway.sessions.service import SessionService
from gateway.sessions.tokens import mac_of
from gateway.sessions.types import Grant, Place
from gateway.tenancy.people.repository import PeopleRepository
from gateway.tenancy.people.types import User

__all__ = ["CODE_LASTS", "LINK_LASTS", "PasswordResets", "Reset"]

LINK_LASTS = timedelta(days=1)
CODE_LASTS = timedelta(minutes=30)
_TOKEN = re.compile(r"tr-([A-Za-z0-9_-]{1,64})\.(\d{1,11})\.([a-z0-9]{1,16})\.([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class Reset:
    """`token` is known where it is made, and in the hands of whom it is for."""

    email: str
    ends_at: datetime
    token: str = field(repr=False)


class PasswordResets:
    def __init__(
        self,
        database: Database,
        people: PeopleRepository,
        sessions: SessionService,
        audit: AuditRepository,
        ring: Keyring,
        clock: Clock,
    ) -> None:
        self._database = database
        self._people = people
        self._sessions = sessions
        self._audit = audit
        self._ring = ring
        self._clock = clock

    async def by_owner(self, session: WriteSession, actor: Actor, user_id: str) -> Reset:
        """Raises 404 for nobody, 409 for somebody without an address to sign in with."""
        user = await self._people.user(session, user_id)
        if user is None:
            raise NotFound("No such user.")
        if user.email is None:
            raise Conflict("This user has no address to sign in with.")
        reset = self._made(user, user.email, await self._stored(session, user_id), LINK_LASTS)
        details = {"after": {"email": user.email}}
        entry = AuditEntry("user.password_link_made", "user", user_id, None, details)
        await self._audit.append(session, actor, entry)
        return reset

    async def count_request(self, email: str, place: Place) -> None:
        """Raises 429 for who asks too often, whether there is an account or not. Nobody is kept from signing in by it."""
        await self._sessions.count_attempt(f"reset {email}", place)

    async def by_mail(self, email: str) -> Reset | None:
        """None: nobody signs in here with this address and a password."""
        async with self._database.read() as session:
            account = await self._sessions.repository.account(session, email)
        if account is None or account[1] is None or account[0].email is None:
            return None
        return self._made(account[0], account[0].email, account[1], CODE_LASTS)

    async def find(self, token: str) -> Reset:
        """Raises 404 for every token that is not good now."""
        async with self._database.read() as session:
            return (await self._proved(session, token))[1]

    async def accept(self, token: str, password: str, place: Place) -> Grant:
        """Signs in with the new password. Every session that there was ends."""
        async with self._database.read() as session:
            user, found = await self._proved(session, token)
        check_password(password, found.email)
        hashed = await self._sessions.passwords.hash(password)
        async with self._database.write() as session:
            # Of two who use it at once the second waits here, and finds another password.
            await self._people.lock_user(session, user.id)
            await self._proved(session, token)
            actor = Actor("user", user.id, place.request_id, place.address)
            await self._sessions.put_password(session, actor, user.id, hashed)
            return await self._sessions.begin(session, user.id, "password", place)

    async def _proved(self, session: ReadSession | WriteSession, token: str) -> tuple[User, Reset]:
        match = _TOKEN.fullmatch(token)
        if match is not None:
            user_id, ends, key_id, mac = match[1], int(match[2]), match[3], match[4]
            user, secret = await self._people.user(session, user_id), self._ring.get(key_id)
            if user is not None and user.email is not None and secret is not None:
                good = _mac(secret, user, ends, await self._stored(session, user_id))
                if hmac.compare_digest(good, mac) and self._clock.now().timestamp() < ends:
                    return user, Reset(user.email, datetime.fromtimestamp(ends, UTC), token)
        raise NotFound("This link or code is not good any more. Ask for a new one.")

    async def _stored(self, session: ReadSession | WriteSession, user_id: str) -> str | None:
        return await self._sessions.repository.password_of(session, user_id)

    def _made(self, user: User, email: str, stored: str | None, lasts: timedelta) -> Reset:
        ends = int((self._clock.now() + lasts).timestamp())
        name, secret = self._ring.current()
        token = f"tr-{user.id}.{ends}.{name}.{_mac(secret, user, ends, stored)}"
        return Reset(email, datetime.fromtimestamp(ends, UTC), token)


def _mac(secret: bytes, user: User, ends: int, stored: str | None) -> str:
    return mac_of(secret, b"reset", f"{user.id}\0{user.email}\0{ends}\0{stored or ''}".encode())
