"""`tollway admin set-password`: a password for a user, by whoever can reach the database. It does not print."""

from __future__ import annotations

import os
from dataclasses import replace

from gateway.audit.repository import Actor, AuditRepository
from gateway.clock import Clock
from gateway.db import Database
from gateway.errors import Conflict, NotFound
from gateway.ids import IdSource
from gateway.keyring import Keyring
from gateway.obs.metrics import Metrics
from gateway.sessions.passwords import check_password
from gateway.sessions.service import SessionService
from gateway.tenancy.people.repository import PeopleRepository

__all__ = ["put_password"]


async def put_password(
    database: Database, ring: Keyring, clock: Clock, who: str, password: str, email: str | None = None
) -> str:
    """The user's id. `who` is an address or an id; with `email`, that is their address from now on. Raises NotFound
    for nobody, Conflict for somebody without an address, 400 for a password that is none."""
    ids, people = IdSource(clock), PeopleRepository()
    sessions = SessionService(database, AuditRepository(clock, ids), ring, clock, ids, os.urandom, Metrics())
    async with database.read() as session:
        user = await people.user_by_email(session, who) or await people.user(session, who)
    if user is None:
        raise NotFound(f"There is no user {who}.")
    address = email.strip().lower() if email is not None else user.email
    if address is None:
        raise Conflict("This user has no address to sign in with: give one.")
    check_password(password, address)
    hashed = await sessions.passwords.hash(password)
    async with database.write() as session:
        other = await people.user_by_email(session, address)
        if other is not None and other.id != user.id:
            raise Conflict("There is a user with this address already.")
        await people.set_user(session, replace(user, email=address))
        await sessions.put_password(session, Actor("system", "operator"), user.id, hashed)
    return user.id
