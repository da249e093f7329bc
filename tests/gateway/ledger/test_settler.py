"""A database outage: nothing that was handed in is lost, and nothing is charged twice."""

import asyncio
import errno
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import text

from gateway.ledger.errors import LedgerUnavailable
from gateway.ledger.settling import Operation
from gateway.ledger.spool import Spool
from gateway.ledger.types import Hold
from tests.fakes.tcp_proxy import TcpProxy
from tests.gateway.books import Books, MakeLedger
from tests.gateway.ledger.builders import reservation, settlement
from tests.instants import just_now

NOW = just_now()
BOUND = 50_000
COST = 10 * 100 + 5 * 400
WAIT_S = 60


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[TcpProxy]:
    proxy = TcpProxy(database_url)
    await proxy.restore()
    yield proxy
    await proxy.cut()


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await condition():  # noqa: ASYNC110  (the condition is in the database)
            await asyncio.sleep(0.02)


async def test_settlements_of_an_outage_wait_in_the_spool_and_are_applied_once(
    make_ledger: MakeLedger, books: Books, proxy: TcpProxy
) -> None:
    await books.add_budget(100 * BOUND)
    ledger = await make_ledger(url=proxy.url)
    holds = [await ledger.reserve(reservation(f"req_{number}")) for number in range(30)]
    await proxy.cut()
    for hold in holds:
        ledger.settle(settlement(hold, NOW))
        await asyncio.sleep(0)
    with pytest.raises(LedgerUnavailable):
        await ledger.reserve(reservation("req_refused"))
    assert await books.count("usage_event") == 0
    await proxy.restore()

    async def applied() -> bool:
        return await books.count("usage_event") == 30

    await _until(applied)
    await ledger.drain()
    assert await books.held_and_spent() == (0, 30 * COST)
    assert await books.count("hold") == 0


async def test_drained_in_an_outage_the_next_run_applies_the_spool_before_it_is_ready(
    make_ledger: MakeLedger, books: Books, proxy: TcpProxy
) -> None:
    await books.add_budget(100 * BOUND)
    ledger = await make_ledger(url=proxy.url)
    hold = await ledger.reserve(reservation("req_1"))
    await proxy.cut()
    ledger.settle(settlement(hold, NOW))
    await ledger.drain()
    assert await books.held_and_spent() == (BOUND, 0)
    await proxy.restore()
    again = await make_ledger(url=proxy.url)
    assert again.is_ready
    assert await books.held_and_spent() == (0, COST)


async def test_not_ready_until_the_spool_of_an_earlier_run_is_applied(
    make_ledger: MakeLedger, books: Books, proxy: TcpProxy
) -> None:
    ledger = await make_ledger(url=proxy.url)
    hold = await ledger.reserve(reservation("req_1"))
    await proxy.cut()
    ledger.settle(settlement(hold, NOW))
    await ledger.drain()
    again = await make_ledger(url=proxy.url)
    assert not again.is_ready
    await proxy.restore()

    async def ready() -> bool:
        return again.is_ready

    await _until(ready)
    assert await books.count("usage_event") == 1


async def test_a_commit_whose_answer_is_lost_is_not_charged_twice(
    make_ledger: MakeLedger, books: Books, proxy: TcpProxy
) -> None:
    await books.add_budget(100 * BOUND)
    ledger = await make_ledger(url=proxy.url)
    hold = await ledger.reserve(reservation("req_1"))
    proxy.cut_after(b'"req_1"', once_seen=b"INSERT INTO settled_request")
    ledger.settle(settlement(hold, NOW))

    async def committed() -> bool:
        return await books.count("usage_event") == 1

    await _until(committed)
    await proxy.restore()
    await ledger.drain()
    assert await books.count("usage_event") == 1
    assert await books.held_and_spent() == (0, COST)


async def test_a_reservation_whose_commit_is_unknown_is_refused_and_given_back(
    make_ledger: MakeLedger, books: Books, proxy: TcpProxy
) -> None:
    await books.add_budget(100 * BOUND)
    ledger = await make_ledger(url=proxy.url)
    ledger.settle(settlement(await ledger.reserve(reservation("req_0")), NOW))
    await asyncio.sleep(0.1)
    proxy.cut_after(b'"req_1"', once_seen=b"INSERT INTO hold")
    with pytest.raises(LedgerUnavailable):
        await ledger.reserve(reservation("req_1"))
    await proxy.restore()

    async def given_back() -> bool:
        return await books.held_and_spent() == (0, COST)

    await _until(given_back)
    assert await books.count("hold") == 0


async def test_tenants_without_a_hard_budget_go_on_and_are_charged_later(
    make_ledger: MakeLedger, books: Books, proxy: TcpProxy
) -> None:
    """Duty C21: the database away: who has no hard budget goes on, what they owe waits on the disk, and is charged once."""
    await books.add_tenant("proj_hard")
    await books.add_budget(100 * BOUND, tenant_id="proj_hard")
    soft = await books.add_budget(1, is_hard=False)
    ledger = await make_ledger(url=proxy.url)
    await proxy.cut()
    with pytest.raises(LedgerUnavailable):
        await ledger.reserve(reservation("req_hard", "proj_hard"))
    hold = await ledger.reserve(reservation("req_soft"))
    assert not hold.is_recorded
    ledger.settle(settlement(hold, NOW))
    await proxy.restore()

    async def charged() -> bool:
        return await books.held_and_spent(soft) == (0, COST)

    await _until(charged)
    assert await books.value("SELECT request_id FROM usage_event") == "req_soft"


VICTIM = """
import asyncio, os, sys
from datetime import UTC, datetime
from pathlib import Path
from gateway.clock import SystemClock
from gateway.ids import IdSource
from gateway.ledger import Ledger
from gateway.obs.metrics import Metrics
from gateway.settings import LedgerSettings
from tests.gateway.books import patient
from tests.gateway.ledger.builders import reservation, settlement

async def main(url, spool, step):
    settings = LedgerSettings(spool_dir=Path(spool), reserve_timeout_s=60)
    ledger = Ledger(patient(url), gateway_id="gw-victim", settings=settings,
                    clock=SystemClock(), ids=IdSource(), metrics=Metrics())
    await ledger.start()
    hold = await ledger.reserve(reservation("req_1"))
    if step == "spooled":
        print("cut", flush=True)
        sys.stdin.readline()
        ledger.settle(settlement(hold, datetime.now(UTC)))
        while not len(ledger._spool):
            await asyncio.sleep(0.01)
    print("ready to die", flush=True)
    await asyncio.sleep(60)

asyncio.run(main(*sys.argv[1:]))
"""


async def _victim(url: str, spool: Path, step: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        VICTIM,
        url,
        str(spool),
        step,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )


async def _line(process: asyncio.subprocess.Process, wanted: bytes) -> None:
    assert process.stdout is not None
    async with asyncio.timeout(WAIT_S):
        while line := await process.stdout.readline():
            if line.startswith(wanted):
                return
    raise AssertionError(f"the process ended without {wanted!r}")


async def test_kill_9_loses_nothing_that_the_spool_has(
    make_ledger: MakeLedger, books: Books, proxy: TcpProxy, tmp_path: Path
) -> None:
    await books.add_budget(100 * BOUND)
    victim = await _victim(proxy.url, tmp_path / "spool", "spooled")
    await _line(victim, b"cut")
    await proxy.cut()
    assert victim.stdin is not None
    victim.stdin.write(b"\n")
    await _line(victim, b"ready to die")
    os.kill(victim.pid, signal.SIGKILL)
    await victim.communicate()
    assert await books.held_and_spent() == (BOUND, 0)
    await make_ledger("gw-victim")
    assert await books.held_and_spent() == (0, COST)
    assert await books.count("usage_event") == 1


async def test_kill_9_between_reserve_and_settle_leaves_a_hold(
    books: Books, database_url: str, tmp_path: Path
) -> None:
    await books.add_budget(100 * BOUND)
    victim = await _victim(database_url, tmp_path / "spool", "reserved")
    await _line(victim, b"ready to die")
    os.kill(victim.pid, signal.SIGKILL)
    await victim.communicate()
    assert await books.held_and_spent() == (BOUND, 0)
    assert await books.count("hold") == 1
    assert await books.value("SELECT stopped_at IS NULL FROM gateway_instance")


async def test_a_settlement_that_meets_a_lock_waits_and_is_not_thrown_away(
    make_ledger: MakeLedger, books: Books, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("gateway.db.LOCK_TIMEOUT_MS", 50)
    await books.add_budget(100 * BOUND)
    ledger = await make_ledger()
    hold = await ledger.reserve(reservation("req_1"))
    async with books.database.transaction() as somebody:
        await somebody.execute(text("SELECT 1 FROM budget_period FOR UPDATE"))
        ledger.settle(settlement(hold, NOW))

        async def spooled() -> bool:
            return len(ledger._spool) == 1

        await _until(spooled)

    async def settled() -> bool:
        return await books.count("usage_event") == 1

    await _until(settled)
    assert await books.held_and_spent() == (0, COST)
    assert not (tmp_path / "spool" / "gw-1.rejected").exists()


async def test_a_full_disk_in_an_outage_keeps_settlements_until_either_ends(
    make_ledger: MakeLedger, books: Books, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    await books.add_budget(100 * BOUND)
    ledger = await make_ledger(url=proxy.url)
    holds = [await ledger.reserve(reservation(f"req_{number}")) for number in range(3)]
    tries = 0

    def full(self: Spool, records: object) -> None:
        nonlocal tries
        tries += 1
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(Spool, "append", full)
    monkeypatch.setattr("gateway.ledger.settler.SPOOL_RETRY_S", 0.01)
    await proxy.cut()
    ledger.settle(settlement(holds[0], NOW))

    async def tried() -> bool:
        return tries > 2

    await _until(tried)
    ledger.settle(settlement(holds[1], NOW))
    await proxy.restore()

    async def settled() -> bool:
        return await books.count("usage_event") == 2

    await _until(settled)
    await proxy.cut()
    ledger.settle(settlement(holds[2], NOW))
    await ledger.drain()  # ends all the same; the hold stays for the reconciler
    assert await books.held_and_spent() == (BOUND, 2 * COST)


async def test_a_spooled_line_that_nobody_understands_stands_in_nobodys_way(
    make_ledger: MakeLedger, books: Books, tmp_path: Path
) -> None:
    await books.add_budget(100 * BOUND)
    spool = Spool(tmp_path / "spool", "gw-1")
    hold = Hold(reservation("req_1"), BOUND, (), NOW, NOW, is_recorded=False)
    spool.append([b'{"settlement": 5}', msgspec.json.encode(Operation(settlement=settlement(hold, NOW)))])
    spool.close()
    ledger = await make_ledger()
    assert ledger.is_ready
    assert await books.count("usage_event") == 1
    assert b'{"settlement": 5}' in (tmp_path / "spool" / "gw-1.rejected").read_bytes()
