"""`tollway admin bootstrap`: the first owner of an installation with the first admin key, once and audited.

Whoever can run it against the database is the operator already. It refuses as soon as there is, or ever was,
an admin key: a lost one is replaced by another admin key, not by this. It does not print.
"""

from gateway.audit.repository import Actor, AuditRepository
from gateway.clock import Clock
from gateway.db import Database
from gateway.errors import Conflict
from gateway.ids import Entropy, IdSource
from gateway.tenancy.keys import Peppers
from gateway.tenancy.people.service import AdminKeyOptions, PeopleService
from gateway.tenancy.service import IssuedKey

__all__ = ["bootstrap"]


async def bootstrap(
    database: Database,
    peppers: Peppers,
    clock: Clock,
    ids: IdSource,
    entropy: Entropy,
    name: str = "owner",
    email: str | None = None,
) -> IssuedKey:
    """The key's value is in the answer and nowhere else. Raises `Conflict` the second time."""
    people = PeopleService(AuditRepository(clock, ids), peppers, clock, ids, entropy)
    actor = Actor("system", "bootstrap")
    async with database.write() as session:
        await people.repository.lock(session)
        if await people.repository.admin_key_count(session):
            raise Conflict("This installation has an admin key already.")
        owner = await people.create_user(session, actor, email, name, "owner")
        return await people.create_admin_key(session, actor, name, AdminKeyOptions("owner", owner.id))
