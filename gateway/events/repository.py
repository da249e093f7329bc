"""Writing events: the record and its outbox row, in the transaction of the cause."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import text

from gateway.db import WriteConnection, WriteSession
from gateway.events.types import Event

__all__ = ["TOPIC", "announce"]

TOPIC = "alert"
"""Of the outbox rows; the courier takes them away."""
# In the order of their ids, so that two transactions that announce the same events wait for each other.
_ANNOUNCE = text(
    """
    WITH told AS (
        SELECT * FROM json_to_recordset(CAST(:events AS json)) AS r (
            id text, type text, tenant_id text, payload jsonb, occurred_at timestamptz, mail jsonb)
    ), written AS (
        INSERT INTO alert_record (id, type, tenant_id, payload, occurred_at)
        SELECT id, type, tenant_id, payload, occurred_at FROM told ORDER BY id
        ON CONFLICT (id) DO NOTHING RETURNING id
    )
    INSERT INTO outbox (topic, tenant_id, payload)
    SELECT :topic, tenant_id, jsonb_build_object('record_id', id, 'mail', mail) FROM told JOIN written USING (id)
    ORDER BY occurred_at, id RETURNING payload ->> 'record_id' AS id
    """
)


async def announce(connection: WriteConnection | WriteSession, events: Sequence[Event]) -> frozenset[str]:
    """What is committed here reaches its receivers, whatever dies after the commit. The ids of those that are new:
    what was announced before, by whomever, is not announced again."""
    if not events:
        return frozenset()
    rows = [
        {
            "id": event.id,
            "type": event.type,
            "tenant_id": event.tenant_id,
            "payload": event.payload,
            "occurred_at": event.occurred_at,
            "mail": event.mail,
        }
        for event in {event.id: event for event in events}.values()
    ]
    document = msgspec.json.encode(rows).decode()
    written = await connection.execute(_ANNOUNCE, {"events": document, "topic": TOPIC})
    return frozenset(row.id for row in written)
