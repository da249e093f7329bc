"""Invites that are accepted by who was invited: a link with a token that is good once.

Place: beside service.py. The token's hash alone is stored, with its invite; a new link makes the one before it
useless. It does not know how a link reaches anybody.
"""

from __future__ import annotations

import base64
import hashlib
import re

from gateway.audit.repository import Actor, AuditEntry, AuditRepository
from gateway.clock import Clock
from gateway.db import Database, WriteSession
from gateway.errors import Conflict, NotFound
from gateway.ids import Entropy
from gateway.sessions.passwords import check_password
from gateway.sessions.service import SessionService
from gateway.sessions.types import Grant, Place
from gateway.tenancy.people.service import PeopleService
from gateway.tenancy.people.types import InviteView

__all__ = ["Invitations"]

TOKEN_BYTES = 32
_TOKEN = re.compile(r"ti-[A-Za-z0-9_-]{43}")


class Invitations:
    def __init__(
        self,
        database: Database,
        people: PeopleService,
        sessions: SessionService,
        audit: AuditRepository,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._database = database
        self._people = people
        self._sessions = sessions
        self._audit = audit
        self._clock = clock
        self._entropy = entropy

    async def new_token(self, session: WriteSession, actor: Actor, invite_id: str) -> str:
        """For the link; the only time that it is known. Raises 404 and 409 for an invite that cannot be accepted."""
        invite = await self._people.repository.locked_invite(session, invite_id)
        if invite is None:
            raise NotFound("No such invite.")
        if not self._is_pending(invite):
            raise Conflict("The invite is accepted or expired.")
        token = "ti-" + base64.urlsafe_b64encode(self._entropy(TOKEN_BYTES)).decode().rstrip("=")
        await self._people.repository.set_invite_token(session, invite_id, _hash(token))
        details = {"after": {"email": invite.email}}
        entry = AuditEntry("invite.link_made", "invite", invite_id, None, details)
        await self._audit.append(session, actor, entry)
        return token

    async def find(self, token: str) -> InviteView:
        """Raises 404 for every token that is not good now."""
        found = None
        if _TOKEN.fullmatch(token):
            async with self._database.read() as session:
                found = await self._people.repository.invite_by_token(session, _hash(token))
        if found is None or not self._is_pending(found):
            raise NotFound("This link is not good any more. Ask for a new one.")
        return found

    async def accept(self, token: str, name: str, password: str, place: Place) -> Grant:
        """Makes the user with their password, and signs them in."""
        invite = await self.find(token)
        check_password(password, invite.email)
        hashed = await self._sessions.passwords.hash(password)
        actor = Actor("user", invite.id, place.request_id, place.address)
        async with self._database.write() as session:
            user = await self._people.accept_invite(session, actor, invite.id, name)
            own = Actor("user", user.id, place.request_id, place.address)
            await self._sessions.put_password(session, own, user.id, hashed)
            return await self._sessions.begin(session, user.id, "invite", place)

    def _is_pending(self, invite: InviteView) -> bool:
        return invite.accepted_at is None and self._clock.now() < invite.expires_at


def _hash(token: str) -> bytes:
    """Plain: the token is as random as a key, so there is nothing to guess."""
    return hashlib.sha256(token.encode()).digest()
