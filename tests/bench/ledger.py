"""How fast the ledger is with everything on one budget: `python -m tests.bench.ledger [--seconds 5]`.

Starts a durable Postgres of its own (or takes --url), then measures in one run: a bare commit, a bare group-committed
INSERT of the rows that a settlement writes, and closed loops of reserve and settle through two ledgers whose requests
all share one organisation budget.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles
from typing import TypeVar

import msgspec
from pydantic import SecretStr
from sqlalchemy import text

from gateway.clock import SystemClock
from gateway.db import Database
from gateway.ids import GatewayId, IdSource
from gateway.ledger import Ledger
from gateway.ledger.pricing import charge
from gateway.ledger.repository.settling import attempt_rows, claim, event_row, write_events
from gateway.ledger.types import Hold, Settlement
from gateway.local.postgres import EmbeddedPostgres
from gateway.migrate import migrate
from gateway.obs.metrics import Metrics
from gateway.settings import DatabaseSettings, LedgerSettings
from tests.gateway.ledger.builders import reservation, settlement

T = TypeVar("T")

GATEWAYS = 2
CALLERS = 128
BATCH = 64


async def bare_commits_s(database: Database, seconds: float) -> list[float]:
    """One row and one synchronous commit at a time."""
    taken: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        started = time.monotonic()
        async with database.transaction() as connection:
            await connection.execute(text("INSERT INTO outbox (topic, payload) VALUES ('bench', '{}')"))
        taken.append(time.monotonic() - started)
    return taken


async def bare_inserts(database: Database, seconds: float) -> int:
    """The rows of a settlement (guard, event, attempt, outbox) in batches, with no hold, lock or budget."""
    ids = IdSource()
    until, written = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        settlements = [_settlement(f"bare_{written + number:09d}") for number in range(BATCH)]
        events = [
            event_row(one, ids.uuid7(), charge(one.hold.reservation.prices, one.attempts), 0, None)
            for one in settlements
        ]
        async with database.transaction() as connection:
            await claim(connection, events, [False] * BATCH)
            await write_events(connection, events, [row for one in settlements for row in attempt_rows(one)])
        written += BATCH
    return written


async def closed_loops(ledgers: list[Ledger], seconds: float) -> list[float]:
    """Each caller reserves, settles and begins again; returns what each reserve took."""
    taken: list[float] = []
    until = time.monotonic() + seconds

    async def caller(number: int) -> None:
        ledger, turn = ledgers[number % len(ledgers)], 0
        while time.monotonic() < until:
            started = time.monotonic()
            hold = await ledger.reserve(reservation(f"req_{number}_{turn}"))
            taken.append(time.monotonic() - started)
            ledger.settle(settlement(hold, datetime.now(UTC)))
            turn += 1

    await asyncio.gather(*(caller(number) for number in range(CALLERS)))
    return taken


async def run(url: str, spool: Path, seconds: float) -> dict[str, float]:
    database = Database(url, name="bench", pool_size=1)
    async with database.write() as session:
        await session.execute(
            text("INSERT INTO tenant (id, name) VALUES ('proj_a', 'a') ON CONFLICT DO NOTHING")
        )
        await session.execute(
            text(
                "INSERT INTO budget (id, scope, period, limit_nanousd) VALUES ('org', 'organization', 'monthly',"
                " 1000000000000000) ON CONFLICT DO NOTHING"
            )
        )
    commits = await bare_commits_s(database, seconds / 2)
    inserts, insert_s = await _timed(lambda: bare_inserts(database, seconds))
    ledgers = [_ledger(url, spool, f"gw-{number}") for number in range(GATEWAYS)]
    for ledger in ledgers:
        await ledger.start()
    reserves, _ = await _timed(lambda: closed_loops(ledgers, seconds))
    drained_from = time.monotonic()
    for ledger in ledgers:
        await ledger.drain()
    drain_s = time.monotonic() - drained_from
    await database.close()
    settled_per_s = len(reserves) / (seconds + drain_s)
    return {
        "bare_commit_p95_ms": _p95_ms(commits),
        "bare_inserts_per_s": inserts / insert_s,
        "settlements_per_s": settled_per_s,
        "settlements_to_bare_inserts": settled_per_s / (inserts / insert_s),
        "reserve_p50_ms": sorted(reserves)[len(reserves) // 2] * 1000,
        "reserve_p95_ms": _p95_ms(reserves),
        "reserve_p95_to_bare_commit_p95": _p95_ms(reserves) / _p95_ms(commits),
        "drain_s": drain_s,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--url", help="an empty or migrated database; default: an embedded server, durable")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name:
        directory = Path(name)
        directory.chmod(0o711)
        server = None if arguments.url else EmbeddedPostgres(directory)
        if server is not None:
            server.start()
            server.ensure_database()
        url = arguments.url or (server.url() if server else "")
        try:
            asyncio.run(migrate(url))
            figures = asyncio.run(run(url, directory / "spool", arguments.seconds))
        finally:
            if server is not None:
                server.stop()
    print(msgspec.json.format(msgspec.json.encode({k: round(v, 2) for k, v in figures.items()})).decode())


def _settlement(name: str) -> Settlement:
    now = datetime.now(UTC)
    return settlement(Hold(reservation(name), 50_000, (), now, now), now)


def _ledger(url: str, spool: Path, gateway_id: str) -> Ledger:
    return Ledger(
        DatabaseSettings(url=SecretStr(url)),
        gateway_id=GatewayId(gateway_id),
        settings=LedgerSettings(spool_dir=spool, reserve_timeout_s=30),
        clock=SystemClock(),
        ids=IdSource(),
        metrics=Metrics(),
    )


async def _timed(work: Callable[[], Awaitable[T]]) -> tuple[T, float]:
    started = time.monotonic()
    result = await work()
    return result, time.monotonic() - started


def _p95_ms(taken_s: list[float]) -> float:
    return quantiles(taken_s, n=20)[-1] * 1000


if __name__ == "__main__":
    main()
