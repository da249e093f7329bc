"""Refusal counts and the pseudonyms' look-up table, as a gateway writes them."""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import text

from gateway.db import WriteConnection
from gateway.ledger.models import RefusalMinute
from gateway.ledger.repository.rows import insert_recordset

__all__ = ["erase_user", "write_pseudonyms", "write_refusals"]

_REFUSALS = text(
    f"""
    {insert_recordset(RefusalMinute, "rows", skip=("counted",))}
    ON CONFLICT (bucket, gateway_id, instance_id, tenant_id, key_id, served_model, reason)
    DO UPDATE SET requests = greatest(refusal_minute.requests, EXCLUDED.requests)
    """
)
# A tenant may have been erased meanwhile.
_PSEUDONYMS = text(
    """
    INSERT INTO user_pseudonym (tenant_id, user_ref, end_user)
    SELECT given.* FROM unnest(CAST(:tenant_ids AS text[]), CAST(:user_refs AS text[]), CAST(:end_users AS text[]))
        AS given (tenant_id, user_ref, end_user)
    JOIN tenant t ON t.id = given.tenant_id
    ON CONFLICT (tenant_id, user_ref) DO NOTHING
    """
)
_ERASE = text(
    "DELETE FROM user_pseudonym WHERE tenant_id = :tenant_id AND (end_user = :user OR user_ref = :user)"
)


async def write_refusals(connection: WriteConnection, counts: Sequence[Any]) -> None:
    """Sums per run and minute, one row per key, in key order. A sum never shrinks: an older one changes nothing."""
    await connection.execute(_REFUSALS, {"rows": msgspec.json.encode(counts).decode()})


async def write_pseudonyms(connection: WriteConnection, users: Sequence[tuple[str, str, str]]) -> None:
    """(tenant, pseudonym, end user), in key order."""
    tenant_ids, user_refs, end_users = zip(*users, strict=True)
    await connection.execute(
        _PSEUDONYMS,
        {"tenant_ids": list(tenant_ids), "user_refs": list(user_refs), "end_users": list(end_users)},
    )


async def erase_user(connection: WriteConnection, tenant_id: str, user: str) -> int:
    """Forget whom a pseudonym stands for, named by the user or the pseudonym itself. The money stays as it is."""
    return (await connection.execute(_ERASE, {"tenant_id": tenant_id, "user": user})).rowcount
