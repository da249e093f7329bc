"""Rows of meter events and customers."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy.exc import DBAPIError

from gateway.db import Database
from gateway.exports.repository import deliveries, runs
from gateway.exports.stripe import MeterLine, identifier
from tests.gateway.exports.conftest import books, database, ledger
from tests.gateway.exports.ledger import DAY, Ledger, spec

__all__ = ["books", "database", "ledger"]
LEASE = timedelta(minutes=1)


def _line(tenant: str, hour: int) -> MeterLine:
    at = DAY + timedelta(hours=hour)
    return MeterLine("tollway_nanousd", identifier(tenant, at), at, f"cus_{tenant}", tenant, hour)


async def test_events_are_claimed_once_and_listed(database: Database, ledger: Ledger) -> None:
    lines = [_line(tenant, hour) for tenant in ("proj_a", "proj_b") for hour in range(1_200)]
    async with database.write() as session:
        await runs.request(session, "export_1", spec("stripe"), "here", "test")
        await deliveries.enqueue(session, "export_1", lines)
        await deliveries.enqueue(session, "export_1", lines[:5])
    async with database.write() as first, database.write() as second:
        one = await deliveries.claim(first, 1_500, LEASE)
        two = await deliveries.claim(second, 1_500, LEASE)
    assert (len(one), len(two)) == (1_500, 900)
    assert not {event.identifier for event in one} & {event.identifier for event in two}
    async with database.write() as session:
        await deliveries.record(session, one[0], "delivered", None, LEASE, None)
        assert await deliveries.claim(session, 10, LEASE) == []
    async with database.read() as session:
        delivered = await deliveries.page(session, None, "delivered", None, 10)
        assert [event.identifier for event in delivered] == [one[0].identifier]
        ours = await deliveries.page(session, "proj_b", None, None, 3)
        assert [event.tenant_id for event in ours] == ["proj_b"] * 3
        rest = await deliveries.page(session, "proj_b", None, ours[0].identifier, 2)
        assert [event.identifier for event in rest] == [event.identifier for event in ours[1:]]


async def test_a_customer_is_named_once(database: Database, ledger: Ledger) -> None:
    async with database.write() as session:
        assert await deliveries.add_customer(session, "proj_b", "cus_b") is not None
        assert await deliveries.add_customer(session, "proj_a", "cus_a") is not None
        assert await deliveries.add_customer(session, "proj_a", "cus_other") is None
    async with database.read() as session:
        rows = await deliveries.customers(session, None, 10)
        assert [(row.tenant_id, row.customer_id) for row in rows] == [
            ("proj_a", "cus_a"),
            ("proj_b", "cus_b"),
        ]
        assert [row.tenant_id for row in await deliveries.customers(session, "proj_a", 10)] == ["proj_b"]
    with pytest.raises(DBAPIError, match="permission denied"):
        await _change(database)


async def _change(database: Database) -> None:
    from sqlalchemy import text

    async with database.write() as session:
        await session.execute(text("UPDATE stripe_customer SET customer_id = 'cus_other'"))
