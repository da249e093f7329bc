"""Requests admitted while the database is away survive the death of their gateway, and are accounted for once."""

import asyncio
import errno
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.ids import IdSource, ReplicaId
from gateway.ledger.batcher import commit_batch
from gateway.ledger.errors import LedgerUnavailable
from gateway.ledger.repository.holds import FIRST_HOLD, orphaned_holds
from gateway.ledger.service import Ledger
from gateway.ledger.settling import Operation, SettleBatch
from gateway.ledger.spool import Spool
from gateway.ledger.types import Hold
from gateway.ledger.unrecorded import UnrecordedHolds
from gateway.reconcile.evidence import JournalAttempt, settlement_from_journal
from tests.fakes.tcp_proxy import TcpProxy
from tests.gateway.books import Books, MakeLedger
from tests.gateway.ledger.builders import reservation, settlement
from tests.instants import just_now

NOW = just_now()


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[TcpProxy]:
    proxy = TcpProxy(database_url)
    await proxy.restore()
    yield proxy
    await proxy.cut()


def spool_of(tmp_path: Path) -> Path:
    return tmp_path / "spool" / "gw-1.unrecorded.spool"


async def die(ledger: Ledger) -> None:
    """What SIGKILL does as far as others can see: its locks are free, and it writes nothing more."""
    ledger._spool.close()
    ledger._unrecorded.close()
    ledger._is_draining = True
    tasks = (*ledger._batchers, *ledger._helpers)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def admitted_in_an_outage(
    make_ledger: MakeLedger, proxy: TcpProxy, *names: str
) -> tuple[Ledger, list[Hold]]:
    ledger = await make_ledger(url=proxy.url)
    await proxy.cut()
    with pytest.raises(LedgerUnavailable):  # whoever notices it first is refused
        await ledger.reserve(reservation("req_first", "proj_hard"))
    return ledger, [await ledger.reserve(reservation(name)) for name in names]


async def test_a_killed_gateways_unrecorded_request_is_settled_from_its_journal(
    make_ledger: MakeLedger, books: Books, proxy: TcpProxy, tmp_path: Path
) -> None:
    soft = await books.add_budget(1, is_hard=False)
    await books.add_tenant("proj_hard")
    await books.add_budget(1, tenant_id="proj_hard")
    ledger, (hold, settled) = await admitted_in_an_outage(make_ledger, proxy, "req_lost", "req_settled")
    assert not hold.is_recorded
    ledger.settle(settlement(settled, NOW))
    async with asyncio.timeout(60):
        while not len(ledger._spool):  # noqa: ASYNC110  (the disk has no event)
            await asyncio.sleep(0.01)
    await die(ledger)
    await proxy.restore()
    again = await make_ledger(url=proxy.url)
    assert again.is_ready
    async with books.database.transaction() as connection:
        (orphan,) = await orphaned_holds(connection, 30, 10, FIRST_HOLD)
    assert (orphan.request_id, orphan.amount_nanousd, [take.budget_id for take in orphan.takes]) == (
        "req_lost",
        hold.amount_nanousd,
        [soft],
    )
    found = JournalAttempt(
        hold.request_id, 0, ReplicaId("r"), "e", True, 10, 0, 5, 0, None, "stop", None, None, None, NOW
    )
    operation = [Operation(settlement=settlement_from_journal(orphan, [found]))]
    assert await commit_batch(books.database, operation, SettleBatch(IdSource()).apply) == ["settled"]
    assert await books.held_and_spent(soft) == (0, 2 * (10 * 100 + 5 * 400))
    assert spool_of(tmp_path).stat().st_size == 0
    await again.drain()
    assert await books.count("hold") == 0


async def test_the_file_is_empty_again_when_all_are_settled(
    make_ledger: MakeLedger, books: Books, proxy: TcpProxy, tmp_path: Path
) -> None:
    await books.add_tenant("proj_hard")
    await books.add_budget(1, tenant_id="proj_hard")
    ledger, (hold,) = await admitted_in_an_outage(make_ledger, proxy, "req_1")
    await proxy.restore()
    await asyncio.sleep(1.2)  # two looks of the replaying task
    assert spool_of(tmp_path).stat().st_size > 0, "it is open still"
    ledger.settle(settlement(hold, NOW))
    await ledger.drain()
    assert spool_of(tmp_path).stat().st_size == 0
    assert await books.count("usage_event") == 1


async def test_a_disk_that_cannot_remember_it_admits_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path, "gw-1.unrecorded")
    holds = UnrecordedHolds(spool)

    def full(records: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(spool, "append", full)
    with pytest.raises(LedgerUnavailable):
        await holds.note(Hold(reservation("req_1"), 1, (), NOW, NOW, is_recorded=False))
    holds.close()
