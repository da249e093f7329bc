"""Fixtures: ledgers on a real database, and plain SQL to look at what they did."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from gateway.clock import Clock, SystemClock
from gateway.db import Database
from gateway.ids import GatewayId, IdSource
from gateway.ledger.closing import OPEN_FOR_SURE
from gateway.ledger.errors import LedgerUnavailable
from gateway.ledger.service import Ledger
from gateway.ledger.types import Hold, Prices, Settlement
from gateway.obs.metrics import Metrics
from gateway.settings import DatabaseSettings, LedgerSettings
from tests.gateway.ledger.builders import PRICES, reservation
from tests.instants import just_now
from tests.patience import LONG_S, PatientDatabase

MakeLedger = Callable[..., Awaitable[Ledger]]


def patient(url: str, **changes: Any) -> DatabaseSettings:
    """What a busy machine delays is no fault: a test that means a time limit sets it."""
    return PatientDatabase(url=SecretStr(url), **changes)


async def once_admitted(ledger: Ledger, name: str, tenant_id: str = "proj_a") -> Hold:
    """By a new request each time, as callers try again: for ledgers whose limits a slow machine misses now and then."""
    async with asyncio.timeout(60):
        for number in count():
            with suppress(LedgerUnavailable):
                return await ledger.reserve(reservation(f"{name}_{number}", tenant_id))
            await asyncio.sleep(0.05)
    raise AssertionError("never admitted")


class DatedLedger(Ledger):
    """By the machine's clock. A settlement that is right today and late on some day to come is refused at once."""

    def settle(self, settlement: Settlement) -> None:
        age = abs(just_now() - settlement.occurred_at)
        assert age < OPEN_FOR_SURE / 2, f"{age} from now: take just_now(), or give the ledger a clock"
        super().settle(settlement)


class Books:
    """The owner's view of a test database."""

    def __init__(self, database: Database, database_url: str = "") -> None:
        self.database = database
        self.database_url = database_url

    async def run(self, statement: str, **parameters: Any) -> None:
        async with self.database.write() as session:
            await session.execute(text(statement), parameters)

    async def rows(self, statement: str, **parameters: Any) -> list[Any]:
        async with self.database.write() as session:
            return list((await session.execute(text(statement), parameters)).all())

    async def value(self, statement: str, **parameters: Any) -> Any:
        async with self.database.write() as session:
            return (await session.execute(text(statement), parameters)).scalar_one()

    async def add_tenant(self, tenant_id: str = "proj_a") -> None:
        await self.run("INSERT INTO tenant (id, name) VALUES (:id, :id)", id=tenant_id)

    async def add_budget(
        self,
        limit: int,
        *,
        scope: str = "tenant",
        tenant_id: str | None = "proj_a",
        key_id: str | None = None,
        period: str = "monthly",
        zone: str = "UTC",
        is_hard: bool = True,
    ) -> str:
        budget_id = "-".join(filter(None, ("budget", scope, tenant_id, key_id, period)))
        await self.run(
            "INSERT INTO budget (id, scope, tenant_id, key_id, period, zone, limit_nanousd, is_hard)"
            " VALUES (:id, :scope, :tenant_id, :key_id, :period, :zone, :limit, :is_hard)",
            id=budget_id,
            scope=scope,
            tenant_id=tenant_id,
            key_id=key_id,
            period=period,
            zone=zone,
            limit=limit,
            is_hard=is_hard,
        )
        return budget_id

    async def held_and_spent(self, budget_id: str = "budget-tenant-proj_a-monthly") -> tuple[int, int]:
        """In all its periods: one may end while a test runs."""
        [(held, spent)] = await self.rows(
            "SELECT coalesce(sum(held_nanousd), 0), coalesce(sum(spent_nanousd), 0) FROM budget_period"
            " WHERE budget_id = :id",
            id=budget_id,
        )
        return int(held), int(spent)

    async def watch_budgets(self) -> None:
        """From now on every state that a budget row is committed in is kept, in `budget_history`."""
        await self.run(
            "CREATE TABLE budget_history (xid xid8, LIKE budget_period, PRIMARY KEY (xid, budget_id, period_key))"
        )
        await self.run(
            "CREATE FUNCTION keep_history() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN"
            " INSERT INTO budget_history SELECT pg_current_xact_id(), NEW.*"
            " ON CONFLICT (xid, budget_id, period_key) DO UPDATE"  # a transaction's last word is what it commits
            " SET held_nanousd = EXCLUDED.held_nanousd, spent_nanousd = EXCLUDED.spent_nanousd;"
            " RETURN NULL; END $$"
        )
        await self.run(
            "CREATE TRIGGER keep_history AFTER INSERT OR UPDATE ON budget_period"
            " FOR EACH ROW EXECUTE FUNCTION keep_history()"
        )

    async def until_waiting(self) -> None:
        """Until somebody waits for a lock in this database."""
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        async with asyncio.timeout(60):
            while not await self.value(waiting):  # noqa: ASYNC110  (the condition is in the database)
                await asyncio.sleep(0.01)

    async def count(self, table: str) -> int:
        return int(await self.value(f"SELECT count(*) FROM {table}"))


@pytest.fixture
async def books(database_url: str) -> AsyncIterator[Books]:
    """A database with one tenant and the prices of `builders.PRICES`."""
    database = Database(database_url, name="test-books", pool_size=3, role=None)
    books = Books(database, database_url)
    await books.add_tenant()
    for component, price in _components(PRICES).items():
        await books.run(
            "INSERT INTO price (sku, component, valid_from, nanousd_per_token)"
            " VALUES ('tiny', :component, '2026-01-01Z', :price)",
            component=component,
            price=price,
        )
    yield books
    await database.close()


@pytest.fixture
async def make_ledger(database_url: str, books: Books, tmp_path: Path) -> AsyncIterator[MakeLedger]:
    """Starts ledgers; those that the test did not drain are drained at its end."""
    made: list[Ledger] = []

    async def make(
        gateway_id: str = "gw-1", url: str = database_url, clock: Clock | None = None, **settings: Any
    ) -> Ledger:
        """`settings` are the ledger's; `database` among them, the database's."""
        database = patient(url, **settings.pop("database", {}))
        ledger = (DatedLedger if clock is None else Ledger)(
            database,
            gateway_id=GatewayId(gateway_id),
            settings=LedgerSettings(
                spool_dir=tmp_path / "spool", **{"reserve_timeout_s": LONG_S, **settings}
            ),
            clock=clock or SystemClock(),
            ids=IdSource(),
            metrics=Metrics(),
        )
        await ledger.start()
        made.append(ledger)
        return ledger

    yield make
    for ledger in made:
        if not ledger.is_drained:
            await ledger.drain()


def _components(prices: Prices) -> dict[str, Any]:
    return {
        "input": prices.input_nanousd,
        "cached_input": prices.cached_input_nanousd,
        "output": prices.output_nanousd,
    }
