"""One gateway's part of the console's sessions on a real database, with a clock that is moved by hand."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.audit.repository import Actor, AuditRepository
from gateway.db import Database
from gateway.ids import IdSource
from gateway.keyring import Keyring, Keys
from gateway.obs.metrics import Metrics
from gateway.sessions import Grant, Place, SessionDirectory, SessionService
from gateway.sessions.invitations import Invitations
from gateway.sessions.passwords import Passwords
from gateway.sessions.resets import PasswordResets
from gateway.tenancy.people.service import PeopleService
from gateway.tenancy.people.types import User
from gateway.tenancy.principal import Role
from gateway.tenancy.revision import RevisionFeed
from tests.gateway.tenancy.support import PEPPERS, RealStartClock
from tests.patience import FRESH, LONG_S, be_patient

PASSWORD = "correct horse battery"
HERE = Place("192.0.2.7", "a browser", "req_1")
CHEAP_KIB = 64
"""For hashes: what 64 MiB are good for is tested with the passwords themselves."""
OPERATOR = Actor("system", "tests")


@dataclass
class Desk:
    """`ring` is what tokens are made with."""

    database: Database
    clock: RealStartClock
    ring: Keyring

    def __post_init__(self) -> None:
        ids, metrics = IdSource(self.clock), Metrics()
        self.audit = AuditRepository(self.clock, ids)
        self.people = PeopleService(self.audit, PEPPERS, self.clock, ids, os.urandom)
        self.sessions = SessionService(
            self.database, self.audit, self.ring, self.clock, ids, os.urandom, metrics
        )
        self.sessions.passwords = Passwords(os.urandom, CHEAP_KIB)
        self.feed = RevisionFeed(self.database, self.clock, metrics, LONG_S)
        self.directory = SessionDirectory(self.database, self.feed, self.sessions.access, self.clock)
        self.invitations = Invitations(
            self.database, self.people, self.sessions, self.audit, self.clock, os.urandom
        )
        self.resets = PasswordResets(
            self.database, self.people.repository, self.sessions, self.audit, self.ring, self.clock
        )

    async def user(
        self, email: str = "ann@example.com", role: Role = "admin", password: str | None = PASSWORD
    ) -> User:
        hashed = await self.sessions.passwords.hash(password) if password is not None else None
        async with self.database.write() as session:
            user = await self.people.create_user(session, OPERATOR, email, "Ann", role)
            if hashed is not None:
                await self.sessions.put_password(session, OPERATOR, user.id, hashed)
        return user

    async def login(self, email: str = "ann@example.com", password: str = PASSWORD) -> Grant:
        return await self.sessions.login(email, password, HERE)

    async def log(self) -> list[tuple[str, str, str, dict[str, Any]]]:
        """Of the audit log, oldest first: action, actor, resource, details."""
        async with self.database.read() as session:
            rows = await self.audit.page(session)
        return [
            (row.entry.action, row.actor.id, row.entry.resource_id, dict(row.entry.details))
            for row in reversed(rows)
        ]


def ring(*names: str) -> Keyring:
    return Keyring(Keys({name: f"master key {name} of the tests".encode() for name in names or ("m1",)}))


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """How old the feed may be goes by the desk's own clock."""
    be_patient(monkeypatch, FRESH)


@pytest.fixture
async def desk(database_url: str) -> AsyncIterator[Desk]:
    database = Database(database_url, name="test-sessions", pool_size=4)
    yield Desk(database, RealStartClock(), ring())
    await database.close()
