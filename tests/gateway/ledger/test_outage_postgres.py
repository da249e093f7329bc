"""Postgres is really stopped: who is served meanwhile, and what the books say when it is back."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from gateway.clock import SystemClock
from gateway.db import Database
from gateway.ids import GatewayId, IdSource
from gateway.ledger.errors import LedgerUnavailable
from gateway.ledger.service import Ledger
from gateway.ledger.types import Hold
from gateway.local.postgres import EmbeddedPostgres
from gateway.migrate import migrate
from gateway.obs.metrics import Metrics
from gateway.settings import LedgerSettings
from tests.gateway.books import Books, patient
from tests.gateway.ledger.builders import PRICES, reservation, settlement
from tests.instants import just_now

NOW = just_now()
BOUND = 50_000
WAIT_S = 60


class Server:
    """A Postgres of this test's own, which it may stop."""

    def __init__(self, directory: Path) -> None:
        self._postgres = EmbeddedPostgres(directory, durable=False)
        self._spool = directory / "spool"

    async def start(self) -> None:
        await asyncio.to_thread(self._postgres.start)
        await asyncio.to_thread(self._postgres.ensure_database)

    async def stop(self) -> None:
        await asyncio.to_thread(self._postgres.stop)

    @property
    def url(self) -> str:
        return self._postgres.url()

    async def ledger(self, gateway_id: str = "gw-1") -> Ledger:
        ledger = Ledger(
            patient(self.url),
            gateway_id=GatewayId(gateway_id),
            settings=LedgerSettings(spool_dir=self._spool, outage_grace_s=600, reserve_timeout_s=60),
            clock=SystemClock(),
            ids=IdSource(),
            metrics=Metrics(),
        )
        await ledger.start()
        return ledger


@pytest.fixture
async def server(server_directory: Path, tmp_path: Path) -> AsyncIterator[Server]:
    directory = server_directory / tmp_path.name
    directory.mkdir(mode=0o711)
    server = Server(directory)
    await server.start()
    await migrate(server.url)
    yield server
    await server.stop()


@pytest.fixture
async def own_books(server: Server) -> AsyncIterator[Books]:
    database = Database(server.url, name="test-books", pool_size=1, role=None, checked=True)
    books = Books(database)
    for number, component in enumerate(("input", "cached_input", "output")):
        price = (PRICES.input_nanousd, PRICES.cached_input_nanousd, PRICES.output_nanousd)[number]
        await books.run(
            "INSERT INTO price (sku, component, valid_from, nanousd_per_token) VALUES ('tiny', :c, '2026-01-01Z', :p)",
            c=component,
            p=price,
        )
    yield books
    await database.close()


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await condition():  # noqa: ASYNC110  (the condition is in the database)
            await asyncio.sleep(0.05)


async def test_a_stopped_database_stops_hard_budgets_but_for_what_was_leased(
    server: Server, own_books: Books
) -> None:
    """Soft and unlimited tenants go on, a hard one within its lease; all is charged once when the server is back, and
    in no committed state is a hard budget over its limit."""
    books = own_books
    for tenant in ("proj_hard", "proj_soft", "proj_free", "proj_leased"):
        await books.add_tenant(tenant)
    await books.add_budget(100 * BOUND, tenant_id="proj_hard")
    soft = await books.add_budget(1, tenant_id="proj_soft", is_hard=False)
    leased = await books.add_budget(5 * BOUND, tenant_id="proj_leased")
    keyed = await books.add_budget(9 * BOUND, scope="key", tenant_id="proj_leased", key_id="key_own")
    await books.run("INSERT INTO outage_allowance VALUES ('proj_leased', :amount)", amount=2 * BOUND + 1)
    await books.watch_budgets()
    ledger = await server.ledger()

    async def has_lease() -> bool:
        return await books.count("hold WHERE is_lease") == 1

    await _until(has_lease)
    assert await books.held_and_spent(leased) == (2 * BOUND + 1, 0)
    before = await ledger.reserve(reservation("req_before", "proj_leased"))
    await server.stop()
    refused = [
        await _asked(ledger, "req_h", "proj_hard"),
        await _asked(ledger, "req_k", "proj_leased", "key_own"),
    ]
    assert refused == [None, None]
    names = {"req_s": "proj_soft", "req_f": "proj_free", "req_1": "proj_leased", "req_2": "proj_leased"}
    holds = [await _asked(ledger, name, tenant) for name, tenant in names.items()]
    assert all(hold is not None and not hold.is_recorded for hold in holds)
    assert await _asked(ledger, "req_3", "proj_leased") is None  # more than is left of the lease
    for hold in (*holds, before):
        assert hold is not None
        ledger.settle(settlement(hold, NOW, prompt=100, completion=100))
    await server.start()

    async def charged() -> bool:
        return await books.count("usage_event") == 5 and await books.count("hold") == 0

    await _until(charged)
    assert await books.held_and_spent(soft) == (0, BOUND)
    assert await books.held_and_spent(leased) == (0, 3 * BOUND)  # no room for a lease any more
    assert await books.held_and_spent(keyed) == (0, 0)
    over = f"budget_history WHERE budget_id = '{leased}' AND held_nanousd + spent_nanousd > {5 * BOUND}"
    assert await books.count(over) == 0
    await books.run("UPDATE budget SET limit_nanousd = :limit WHERE id = :id", limit=6 * BOUND, id=leased)
    await _until(has_lease)
    assert await books.held_and_spent(leased) == (2 * BOUND + 1, 3 * BOUND)
    await ledger.drain()
    assert await books.held_and_spent(leased) == (0, 3 * BOUND)


async def _asked(ledger: Ledger, name: str, tenant: str, key: str = "key_a") -> Hold | None:
    try:
        return await ledger.reserve(reservation(name, tenant, key))
    except LedgerUnavailable:
        return None
