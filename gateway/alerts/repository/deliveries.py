"""Deliveries: made from outbox rows, leased to one sender at a time, marked when they have arrived or failed.

Times are the database's, so that senders with different clocks agree on what is due. Whoever dies while sending
leaves a lease that runs out: then the message is sent again, with the same id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Row, text

from gateway.alerts.types import Message, Record, Target
from gateway.db import WriteConnection
from gateway.events.repository import TOPIC
from gateway.events.types import Mail

__all__ = ["NewDelivery", "add", "lease", "mark_delivered", "mark_failed", "take_announced"]

# The delete takes the row of the cause together with the deliveries that replace it, in one transaction.
_TAKE = text(
    """
    WITH due AS (
        SELECT id FROM outbox WHERE topic = :topic ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED
    ), taken AS (
        DELETE FROM outbox o USING due WHERE o.id = due.id RETURNING o.id, o.payload
    )
    SELECT r.id AS record_id, r.type, r.tenant_id, r.payload, r.occurred_at, taken.payload -> 'mail' AS mail
    FROM taken JOIN alert_record r ON r.id = taken.payload ->> 'record_id' ORDER BY taken.id
    """
)
_ADD = text(
    """
    INSERT INTO delivery (id, record_id, channel, target_key, target)
    SELECT * FROM json_to_recordset(CAST(:rows AS json)) AS r (
        id text, record_id text, channel text, target_key text, target jsonb)
    ON CONFLICT (record_id, channel, target_key) DO NOTHING
    """
)
_LEASE = text(
    """
    WITH due AS (
        SELECT id FROM delivery WHERE next_attempt_at <= now()
        ORDER BY next_attempt_at LIMIT :limit FOR UPDATE SKIP LOCKED
    ), leased AS (
        UPDATE delivery d SET attempts = d.attempts + 1, next_attempt_at = now() + make_interval(secs => :lease_s)
        FROM due WHERE d.id = due.id RETURNING d.*
    )
    SELECT d.id, d.attempts, d.channel, d.target_key, d.target, r.id AS record_id, r.type, r.tenant_id, r.payload,
        r.occurred_at, NULL AS mail
    FROM leased d JOIN alert_record r ON r.id = d.record_id ORDER BY d.id
    """
)
_DELIVERED = text(
    "UPDATE delivery SET delivered_at = now(), next_attempt_at = NULL, last_error = NULL WHERE id = :id"
)
# Only by whoever made the last attempt: an older one that failed late must not delay or end a newer one.
_FAILED = text(
    """
    UPDATE delivery SET last_error = :error,
        next_attempt_at = CASE WHEN CAST(:delay_s AS double precision) IS NOT NULL
            THEN now() + make_interval(secs => :delay_s) END
    WHERE id = :id AND attempts = :attempt AND delivered_at IS NULL
    """
)


@dataclass(frozen=True, slots=True)
class NewDelivery:
    id: str
    record_id: str
    channel: str
    target_key: str
    target: dict[str, Any]


async def take_announced(connection: WriteConnection, limit: int) -> list[Record]:
    """Records whose outbox rows this transaction takes away."""
    rows = await connection.execute(_TAKE, {"topic": TOPIC, "limit": limit})
    return [_record(row) for row in rows]


async def add(connection: WriteConnection, deliveries: Sequence[NewDelivery]) -> None:
    await connection.execute(_ADD, {"rows": msgspec.json.encode(deliveries).decode()})


async def lease(connection: WriteConnection, limit: int, lease_s: float) -> list[Message]:
    """What is due, now nobody else's for `lease_s`. The attempt counts from here on."""
    rows = await connection.execute(_LEASE, {"limit": limit, "lease_s": lease_s})
    return [
        Message(row.id, row.attempts, row.channel, Target(row.target_key, row.target), _record(row))
        for row in rows
    ]


async def mark_delivered(connection: WriteConnection, message: Message) -> None:
    await connection.execute(_DELIVERED, {"id": message.id})


async def mark_failed(
    connection: WriteConnection, message: Message, error: str, delay_s: float | None
) -> None:
    """Due again after `delay_s`; given up if None."""
    values = {"id": message.id, "attempt": message.attempt, "error": error, "delay_s": delay_s}
    await connection.execute(_FAILED, values)


def _record(row: Row[Any]) -> Record:
    mail = msgspec.convert(row.mail, type=Mail) if row.mail is not None else None
    return Record(row.record_id, row.type, row.tenant_id, row.payload, row.occurred_at, mail)
