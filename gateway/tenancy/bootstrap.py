"""`tollway admin bootstrap`: the first admin key of an installation, once and audited.

Whoever can run it against the database is the operator already. It refuses as soon as there is, or ever was,
an admin key: a lost one is replaced by another admin key, not by this. It does not print.
"""

from gateway.audit.repository import Actor, AuditEntry, AuditRepository
from gateway.clock import Clock
from gateway.db import Database
from gateway.errors import Conflict
from gateway.ids import Entropy, IdSource, KeyId
from gateway.tenancy.keys import Peppers, generate_key, mask_key
from gateway.tenancy.principal import ADMIN_SCOPE
from gateway.tenancy.repository import AdminKeyRow, TenancyRepository
from gateway.tenancy.service import IssuedKey

__all__ = ["bootstrap"]


async def bootstrap(
    database: Database, peppers: Peppers, clock: Clock, ids: IdSource, entropy: Entropy, name: str = "owner"
) -> IssuedKey:
    """The key's value is in the answer and nowhere else. Raises `Conflict` the second time."""
    repository, audit = TenancyRepository(), AuditRepository(clock, ids)
    key = generate_key(entropy)
    row = AdminKeyRow(
        KeyId(ids.new("key")),
        key.public_id,
        peppers.digest(key),
        peppers.current_id,
        frozenset({ADMIN_SCOPE}),
        expires_at=None,
        revoked_at=None,
    )
    async with database.write() as session:
        if await repository.lock_bootstrap(session):
            raise Conflict("This installation has an admin key already.")
        await repository.insert_admin_key(session, row, name)
        entry = AuditEntry(
            "admin_api_key.created", "admin_api_key", row.id, None, {"name": name, "bootstrap": True}
        )
        await audit.append(session, Actor("system", "bootstrap"), entry)
    return IssuedKey(row.id, key.value, mask_key(key.value))
