"""Idempotency keys in the database: claimed by one request at a time, whatever gateway it comes to."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import text

from gateway.db import WriteConnection
from gateway.ids import RequestId, TenantId

__all__ = ["Key", "Owner", "claim", "forget", "keep", "owner_of", "reseal", "sealed_answers"]

# The key of a run that is dead is free: its request will not be answered any more. So is one that has expired.
_CLAIM = text(
    """
    INSERT INTO idempotent_request AS held (tenant_id, key_hash, body_hash, request_id, instance_id, expires_at)
    VALUES (:tenant_id, :key_hash, :body_hash, :request_id, :instance_id, :expires_at)
    ON CONFLICT (tenant_id, key_hash) DO UPDATE SET body_hash = EXCLUDED.body_hash,
        request_id = EXCLUDED.request_id, instance_id = EXCLUDED.instance_id, answer_sealed = NULL,
        created_at = now(), expires_at = EXCLUDED.expires_at
    WHERE held.expires_at <= CAST(:now AS timestamptz) OR (held.answer_sealed IS NULL AND NOT EXISTS (
        SELECT FROM gateway_instance run WHERE run.instance_id = held.instance_id AND run.stopped_at IS NULL
            AND run.heartbeat_at > now() - make_interval(secs => :silent_s)))
    RETURNING request_id
    """
)
_FIND = text(
    "SELECT body_hash, request_id, answer_sealed FROM idempotent_request"
    " WHERE tenant_id = :tenant_id AND key_hash = :key_hash"
)
_MINE = "WHERE tenant_id = :tenant_id AND key_hash = :key_hash AND request_id = :request_id"
_KEEP = text(f"UPDATE idempotent_request SET answer_sealed = :sealed {_MINE}")
_FORGET = text(f"DELETE FROM idempotent_request {_MINE} AND answer_sealed IS NULL")


_SEALED = text(
    "SELECT tenant_id, key_hash, answer_sealed FROM idempotent_request WHERE answer_sealed IS NOT NULL"
    " AND (tenant_id, key_hash) > (:tenant_id, :key_hash) ORDER BY tenant_id, key_hash LIMIT :limit"
)
_RESEAL = text(
    "UPDATE idempotent_request SET answer_sealed = :fresh"
    " WHERE tenant_id = :tenant_id AND key_hash = :key_hash AND answer_sealed = :sealed"
)


@dataclass(frozen=True, slots=True)
class Key:
    """A tenant's key as a hash, and the request that it is used for."""

    tenant_id: TenantId
    key_hash: bytes
    body_hash: bytes
    request_id: RequestId


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose the key is already."""

    body_hash: bytes
    request_id: RequestId
    answer_sealed: bytes | None


async def claim(
    connection: WriteConnection,
    key: Key,
    instance_id: str,
    *,
    now: datetime,
    kept: timedelta,
    silent_s: float,
) -> Owner | None:
    """None: the key is this request's now."""
    values = {
        "tenant_id": key.tenant_id,
        "key_hash": key.key_hash,
        "body_hash": key.body_hash,
        "request_id": key.request_id,
        "instance_id": instance_id,
        "now": now,
        "expires_at": now + kept,
        "silent_s": silent_s,
    }
    if (await connection.execute(_CLAIM, values)).one_or_none() is not None:
        return None
    found = await connection.execute(_FIND, {"tenant_id": key.tenant_id, "key_hash": key.key_hash})
    row = found.one_or_none()
    # Gone since: its request ended without an answer to keep. Who retries then gets the key.
    return Owner(*row) if row is not None else Owner(key.body_hash, key.request_id, None)


async def keep(connection: WriteConnection, key: Key, sealed: bytes) -> None:
    await connection.execute(_KEEP, {**_mine(key), "sealed": sealed})


async def forget(connection: WriteConnection, key: Key) -> None:
    """Nothing was kept: the key is free again."""
    await connection.execute(_FORGET, _mine(key))


def owner_of(tenant_id: str, key_hash: bytes) -> bytes:
    """What an answer is bound to: put on another row it does not open."""
    return tenant_id.encode() + b"\0" + key_hash


async def sealed_answers(
    connection: WriteConnection, after: tuple[str, bytes], limit: int
) -> list[tuple[str, bytes, bytes]]:
    """In the order of their keys: tenant, hash of the key, what is sealed."""
    values = {"tenant_id": after[0], "key_hash": after[1], "limit": limit}
    return [(row[0], row[1], row[2]) for row in await connection.execute(_SEALED, values)]


async def reseal(connection: WriteConnection, row: tuple[str, bytes, bytes], fresh: bytes) -> None:
    """Unless it has been replaced or deleted meanwhile."""
    tenant_id, key_hash, sealed = row
    values = {"tenant_id": tenant_id, "key_hash": key_hash, "sealed": sealed, "fresh": fresh}
    await connection.execute(_RESEAL, values)


def _mine(key: Key) -> dict[str, object]:
    return {"tenant_id": key.tenant_id, "key_hash": key.key_hash, "request_id": key.request_id}
