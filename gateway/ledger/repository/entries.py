"""Entries made by hand, and the events of those that change what a tenant pays."""

from dataclasses import replace
from typing import Any

from sqlalchemy import Row, text

from gateway.db import WriteConnection
from gateway.ids import RequestId, TenantId
from gateway.ledger.repository.settling import EventRow
from gateway.ledger.types import Entry

__all__ = [
    "EventRow",
    "adjustment_event",
    "claim",
    "credit_event",
    "lock_charged",
    "lock_prepaid",
    "raise_limit",
]

_COLUMNS = "idempotency_key, kind, tenant_id, amount_nanousd, reason, created_by, occurred_at, request_id, budget_id, event_id"
_CLAIM = text(
    f"""
    INSERT INTO ledger_entry ({_COLUMNS})
    VALUES (:idempotency_key, :kind, :tenant_id, :amount_nanousd, :reason, :created_by, :occurred_at, :request_id,
        :budget_id, :event_id)
    ON CONFLICT (idempotency_key) DO NOTHING RETURNING idempotency_key
    """
)
_EARLIER = text(f"SELECT {_COLUMNS} FROM ledger_entry WHERE idempotency_key = :idempotency_key")
# Adjustments of one request wait for each other: the sum that the second one checks has the first one in it.
_LOCK_REQUEST = text("SELECT pg_advisory_xact_lock(hashtextextended('tollway adjusts ' || :request_id, 0))")
_COPIED = (
    "user_ref, key_id, served_model, route_id, pool_id, endpoint, request_class, is_stream, status,"
    " price_input_id, price_cached_input_id, price_output_id"
)
_CHARGED = text(
    f"""
    SELECT event_id, {_COPIED}, (
        SELECT sum(amount_nanousd)::bigint FROM usage_event
        WHERE request_id = :request_id AND tenant_id = :tenant_id) AS amount_nanousd
    FROM usage_event
    WHERE request_id = :request_id AND tenant_id = :tenant_id AND corrects IS NULL AND kind = 'request'
    """
)
_LOCK_PREPAID = text(
    "SELECT tenant_id, limit_nanousd FROM budget WHERE id = :budget_id AND period = 'prepaid' FOR UPDATE"
)
_RAISE = text(
    "UPDATE budget SET limit_nanousd = limit_nanousd + :amount, updated_at = now() WHERE id = :budget_id"
)
_NO_TOKENS = {
    "prompt_uncached_tokens": 0,
    "prompt_cached_tokens": 0,
    "completion_tokens": 0,
    "reasoning_tokens": 0,
    "input_nanousd": 0,
    "cached_input_nanousd": 0,
    "output_nanousd": 0,
    "over_hold_nanousd": 0,
    "client_retry_count": 0,
}
_NO_REQUEST = {
    "key_id": "",
    "served_model": "",
    "route_id": "",
    "pool_id": "",
    "endpoint": "",
    "request_class": "",
    "is_stream": False,
    "status": "ok",
    "price_input_id": 0,
    "price_cached_input_id": 0,
    "price_output_id": 0,
}


async def claim(connection: WriteConnection, entry: Entry) -> Entry | None:
    """None if the entry is written now. Else the one that has its key."""
    values = {name: getattr(entry, name) for name in _COLUMNS.split(", ")}
    if (await connection.execute(_CLAIM, values)).one_or_none() is not None:
        return None
    earlier = (await connection.execute(_EARLIER, {"idempotency_key": entry.idempotency_key})).one()
    return replace(Entry(*earlier), is_repeated=True)


async def lock_charged(
    connection: WriteConnection, tenant_id: TenantId, request_id: RequestId
) -> Row[Any] | None:
    """The request's first event, with the sum of all of its events."""
    await connection.execute(_LOCK_REQUEST, {"request_id": request_id})
    found = await connection.execute(_CHARGED, {"tenant_id": tenant_id, "request_id": request_id})
    return found.one_or_none()


async def lock_prepaid(connection: WriteConnection, budget_id: str) -> Row[Any] | None:
    return (await connection.execute(_LOCK_PREPAID, {"budget_id": budget_id})).one_or_none()


async def raise_limit(connection: WriteConnection, budget_id: str, amount_nanousd: int) -> None:
    await connection.execute(_RAISE, {"budget_id": budget_id, "amount": amount_nanousd})


def adjustment_event(entry: Entry, charged: Row[Any]) -> EventRow:
    """Like the event that it corrects, at the time of the adjustment, with no tokens."""
    copied = {name: getattr(charged, name) for name in _COPIED.split(", ")}
    return {**copied, **_by_hand(entry), "request_id": entry.request_id, "corrects": charged.event_id}


def credit_event(entry: Entry) -> EventRow:
    """Of a tenant and of nothing else; its request id is the event's own."""
    assert entry.event_id is not None
    return {**_NO_REQUEST, **_by_hand(entry), "request_id": f"credit_{entry.event_id.hex}"}


def _by_hand(entry: Entry) -> EventRow:
    return {
        **_NO_TOKENS,
        "occurred_at": entry.occurred_at,
        "event_id": entry.event_id,
        "tenant_id": entry.tenant_id,
        "kind": entry.kind,
        "adjustment_nanousd": entry.amount_nanousd,
        "amount_nanousd": entry.amount_nanousd,
    }
