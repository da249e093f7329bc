"""Deliveries: made from outbox rows, leased to one sender at a time, marked when they have arrived or failed.

Times are the database's, so that senders with different clocks agree on what is due. Whoever dies while sending
leaves a lease that runs out: then the message is sent again, with the same id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Row, text

from gateway.alerts.types import Message, Record, Target
from gateway.db import WriteConnection, WriteSession
from gateway.events.repository import TOPIC
from gateway.events.types import Mail

__all__ = [
    "Attempt",
    "NewDelivery",
    "Wanted",
    "add",
    "lease",
    "mark_delivered",
    "mark_failed",
    "mark_postponed",
    "note_attempt",
    "replay",
    "take_announced",
]

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
# Of each target only the first few that are due, among the oldest of all: a target with many of them must not fill the
# batch, and the search ends after a bounded number of rows.
_LEASE = text(
    """
    WITH oldest AS (
        SELECT id, target_key, next_attempt_at FROM delivery
        WHERE next_attempt_at <= now() AND CASE WHEN CAST(:channel AS text) IS NULL
            THEN channel <> ALL(CAST(:known AS text[])) ELSE channel = :channel END
            AND target_key <> ALL(CAST(:busy AS text[]))
        ORDER BY next_attempt_at LIMIT :looked_at
    ), ranked AS (
        SELECT id, next_attempt_at, row_number() OVER (PARTITION BY target_key ORDER BY next_attempt_at, id) AS place
        FROM oldest
    ), due AS (
        SELECT d.id FROM delivery d JOIN ranked r ON r.id = d.id
        WHERE r.place <= :per_target AND d.next_attempt_at <= now()
        ORDER BY r.next_attempt_at LIMIT :limit FOR UPDATE OF d SKIP LOCKED
    ), leased AS (
        UPDATE delivery d SET attempts = d.attempts + 1, next_attempt_at = now() + make_interval(secs => :lease_s)
        FROM due WHERE d.id = due.id RETURNING d.*
    )
    SELECT d.id, d.attempts, d.attempts - d.retries_from AS tries, d.channel, d.target_key, d.target,
        r.id AS record_id, r.type, r.tenant_id, r.payload, r.occurred_at, NULL AS mail
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
_POSTPONED = text(
    """
    UPDATE delivery SET attempts = attempts - 1, next_attempt_at = greatest(:until, now())
    WHERE id = :id AND attempts = :attempt AND delivered_at IS NULL
    """
)
_NOTE = text(
    """
    INSERT INTO delivery_attempt (delivery_id, number, started_at, duration_ms, status_code, error, answer)
    SELECT id, :number, now() - make_interval(secs => CAST(:duration_ms AS double precision) / 1000),
        CAST(:duration_ms AS bigint), :status_code, :error, :answer
    FROM delivery WHERE id = :id ON CONFLICT DO NOTHING
    """
)
_REPLAY = text(
    """
    UPDATE delivery SET delivered_at = NULL, last_error = NULL, retries_from = attempts, next_attempt_at = now()
    WHERE id = :id AND channel = :channel AND target_key = :target_key AND next_attempt_at IS NULL
    RETURNING id
    """
)


LOOKED_AT_MAX = 1000


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which deliveries to lease. Without a channel: those of channels other than the `known` ones."""

    channel: str | None
    limit: int
    lease_s: float
    per_target: int
    busy: list[str]
    """Targets that have enough of them already."""
    known: list[str]


@dataclass(frozen=True, slots=True)
class Attempt:
    duration_ms: int
    status_code: int | None
    error: str | None
    answer: str | None


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


async def lease(connection: WriteConnection, wanted: Wanted) -> list[Message]:
    """What is due, now nobody else's for `lease_s`. The attempt counts from here on."""
    values = {name: getattr(wanted, name) for name in Wanted.__slots__}
    rows = await connection.execute(_LEASE, {**values, "looked_at": LOOKED_AT_MAX})
    return [
        Message(
            row.id, row.attempts, row.channel, Target(row.target_key, row.target), _record(row), row.tries
        )
        for row in rows
    ]


async def note_attempt(connection: WriteConnection, message: Message, attempt: Attempt) -> None:
    """How it went. Nothing if the delivery is gone."""
    values = {name: getattr(attempt, name) for name in Attempt.__slots__}
    await connection.execute(_NOTE, {**values, "id": message.id, "number": message.attempt})


async def mark_delivered(connection: WriteConnection, message: Message) -> None:
    await connection.execute(_DELIVERED, {"id": message.id})


async def mark_failed(
    connection: WriteConnection, message: Message, error: str, delay_s: float | None
) -> bool:
    """Due again after `delay_s`; given up if None. False if somebody else has it, or brought it, meanwhile."""
    values = {"id": message.id, "attempt": message.attempt, "error": error, "delay_s": delay_s}
    return (await connection.execute(_FAILED, values)).rowcount > 0


async def mark_postponed(connection: WriteConnection, message: Message, until: datetime) -> None:
    """As if it had not been leased, but for when it is due."""
    values = {"id": message.id, "attempt": message.attempt, "until": until}
    await connection.execute(_POSTPONED, values)


async def replay(
    connection: WriteConnection | WriteSession, channel: str, target_key: str, delivery_id: str
) -> bool:
    """From the start of the schedule, under the same id. False unless it is that target's, and over."""
    values = {"id": delivery_id, "channel": channel, "target_key": target_key}
    return (await connection.execute(_REPLAY, values)).first() is not None


def _record(row: Row[Any]) -> Record:
    mail = msgspec.convert(row.mail, type=Mail) if row.mail is not None else None
    return Record(row.record_id, row.type, row.tenant_id, row.payload, row.occurred_at, mail)
