"""Session id → who it is, from memory while the revision feed is fresh.

The console's counterpart of the key directory. What ends a session, changes its user or their memberships moves the
feed, so it takes effect on every gateway within 2 s. While Postgres is away nobody's session can be told: 503, and
never 401.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from gateway.clock import Clock
from gateway.db import Database, is_unavailable
from gateway.errors import ServiceUnavailable
from gateway.sessions.errors import SessionOver
from gateway.sessions.repository import SessionRepository
from gateway.sessions.tokens import AccessTokens
from gateway.sessions.types import Standing
from gateway.tenancy.revision import RevisionFeed

__all__ = ["SessionDirectory"]

KNOWN_MAX = 10_000
LOAD_TIMEOUT_S = 5.0


class SessionDirectory:
    def __init__(self, database: Database, feed: RevisionFeed, tokens: AccessTokens, clock: Clock) -> None:
        self._database = database
        self._feed = feed
        self._tokens = tokens
        self._clock = clock
        self._repository = SessionRepository()
        self._known: OrderedDict[str, tuple[tuple[int, int], Standing | None]] = OrderedDict()

    async def authenticate(self, token: str) -> Standing:
        """Raises SessionOver for a token that is not good any more, 503 if that cannot be told now."""
        session_id, user_id = self._tokens.session_of(token)
        return await self.standing(session_id, user_id)

    async def standing(self, session_id: str, user_id: str) -> Standing:
        """Raises SessionOver once it has ended."""
        found = await self._get(session_id)
        if found is None or found.user.id != user_id or not found.is_active:
            raise SessionOver(is_final=True)
        if found.session.ended_at is not None or self._clock.now() >= found.session.expires_at:
            raise SessionOver(is_final=True)
        return found

    async def _get(self, session_id: str) -> Standing | None:
        # Before the read: a change that commits after it moves the feed beyond this entry.
        revision = self._feed.revision("tenancy"), self._feed.revision("sessions")
        entry = self._known.get(session_id)
        if self._feed.fresh and entry is not None and entry[0] == revision:
            self._known.move_to_end(session_id)
            return entry[1]
        try:
            async with asyncio.timeout(LOAD_TIMEOUT_S), self._database.read() as session:
                found = await self._repository.standing(session, session_id)
        except Exception as error:
            if not is_unavailable(error):
                raise
            raise ServiceUnavailable(
                "Sessions cannot be checked right now. Please retry in a moment."
            ) from None
        self._known[session_id] = (revision, found)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return found
