"""How fast the ledger is with everything on one budget: `python -m tests.bench.ledger [--seconds 10] [--callers 8]`.

Starts a durable Postgres of its own (or takes --url), then measures in one run, in slices that alternate so that a busy
machine slows all of them alike: a bare commit, a bare group-committed INSERT of the rows that a settlement writes, and
closed loops of reserve and settle through the ledgers of two gateways, each a process on the gateway's event loop, whose
requests all share one organisation budget. More callers than the database is quick for wait in line: their reserve
takes callers / (settlements/s), whatever the ledger does.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

import msgspec
import uvloop
from sqlalchemy import text

from gateway.db import Database
from gateway.ids import IdSource
from gateway.ledger.models import Attempt, UsageEvent
from gateway.ledger.pricing import charge
from gateway.ledger.repository.rows import insert_recordset
from gateway.ledger.repository.settling import attempt_rows, event_row
from gateway.ledger.types import Hold, Settlement
from gateway.local.postgres import EmbeddedPostgres
from gateway.migrate import migrate
from tests.bench.ledger_gateway import Gateway
from tests.gateway.ledger.builders import reservation, settlement

GATEWAYS = 2
CALLERS = 8
BATCH = 64
SLICES = 5

_BARE_INSERTS = text(
    f"""
    WITH guard AS (
        INSERT INTO settled_request (request_id, tenant_id, event_id, occurred_at, is_provisional)
        SELECT request_id, tenant_id, event_id, occurred_at, false
        FROM json_populate_recordset(CAST(NULL AS usage_event), CAST(:events AS json))
    ), event AS ({insert_recordset(UsageEvent, "events", skip=("recorded_at",))}
    ), attempts AS ({insert_recordset(Attempt, "attempts", skip=("recorded_at",))})
    INSERT INTO outbox (topic, tenant_id, payload)
    SELECT 'usage', tenant_id, jsonb_build_object('occurred_at', occurred_at, 'event_id', event_id)
    FROM json_populate_recordset(CAST(NULL AS usage_event), CAST(:events AS json))
    """
)


@dataclass(slots=True)
class Tally:
    """Samples of all slices: how long each bare commit and each reserve took, how much was written in which time."""

    commits_s: list[float] = field(default_factory=list)
    reserves_s: list[float] = field(default_factory=list)
    inserted: int = 0
    inserting_s: float = 0.0
    settled: int = 0
    settling_s: float = 0.0
    inserting_cpu_s: float = 0.0
    settling_cpu_s: float = 0.0

    def figures(self) -> dict[str, float]:
        bare_per_s = self.inserted / self.inserting_s
        settled_per_s = self.settled / self.settling_s
        return {
            "bare_commit_p50_ms": median(self.commits_s) * 1000,
            "bare_commit_p95_ms": _p95_ms(self.commits_s),
            "bare_inserts_per_s": bare_per_s,
            "settlements_per_s": settled_per_s,
            "settlements_to_bare_inserts": settled_per_s / bare_per_s,
            "bare_row_python_us": self.inserting_cpu_s / self.inserted * 1e6,
            "settlement_python_us": self.settling_cpu_s / self.settled * 1e6,
            "reserve_p50_ms": median(self.reserves_s) * 1000,
            "reserve_p95_ms": _p95_ms(self.reserves_s),
            "reserve_p95_to_bare_commit_p95": _p95_ms(self.reserves_s) / _p95_ms(self.commits_s),
        }


async def bare_commits(database: Database, tally: Tally, seconds: float) -> None:
    """One row and one synchronous commit at a time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        started = time.monotonic()
        async with database.transaction() as connection:
            await connection.execute(text("INSERT INTO outbox (topic, payload) VALUES ('bench', '{}')"))
        tally.commits_s.append(time.monotonic() - started)


async def bare_inserts(database: Database, tally: Tally, seconds: float) -> None:
    """The rows of a settlement (guard, event, attempt, outbox) in batches of one statement and one commit, with no
    hold, lock or budget."""
    ids = IdSource()
    started, cpu = time.monotonic(), time.process_time()
    while time.monotonic() < started + seconds:
        settlements = [_settlement(f"bare_{tally.inserted + number:09d}") for number in range(BATCH)]
        events = [
            event_row(one, ids.uuid7(), charge(one.hold.reservation.prices, one.attempts), 0, None)
            for one in settlements
        ]
        attempts = [row for one in settlements for row in attempt_rows(one)]
        rows = {
            "events": msgspec.json.encode(events).decode(),
            "attempts": msgspec.json.encode(attempts).decode(),
        }
        async with database.statement() as connection:
            await connection.execute(_BARE_INSERTS, rows)
        tally.inserted += BATCH
    tally.inserting_s += time.monotonic() - started
    tally.inserting_cpu_s += time.process_time() - cpu


async def closed_loops(
    gateways: Sequence[Gateway], settled: Callable[[], Awaitable[bool]], tally: Tally, seconds: float
) -> None:
    """Callers of all gateways at once. The time ends when the last settlement is committed."""
    before = await asyncio.gather(*(gateway.ask(0) for gateway in gateways))
    started = time.monotonic()
    seen = await asyncio.gather(*(gateway.ask(seconds) for gateway in gateways))
    while not await settled():  # noqa: ASYNC110  (the condition is in the database)
        await asyncio.sleep(0.002)
    tally.settling_s += time.monotonic() - started
    after = await asyncio.gather(*(gateway.ask(0) for gateway in gateways))
    for one in seen:
        tally.reserves_s += one.reserves_s
        tally.settled += len(one.reserves_s)
    tally.settling_cpu_s += sum(one.cpu_s for one in after) - sum(one.cpu_s for one in before)


async def run(url: str, spool: Path, seconds: float, callers: int) -> dict[str, float]:
    database = Database(url, name="bench", pool_size=1)
    await _prepare(database)
    shares = [callers // GATEWAYS + (number < callers % GATEWAYS) for number in range(GATEWAYS)]
    gateways = [await Gateway.start(url, spool, f"gw{number}", share) for number, share in enumerate(shares)]

    async def all_settled() -> bool:
        async with database.statement() as connection:
            return not (await connection.execute(text("SELECT EXISTS (SELECT FROM hold)"))).scalar_one()

    tally, warm = Tally(), 0
    for turn in range(SLICES + 1):
        if turn == 1:
            warm = tally.inserted  # the first slice warmed up
            tally = Tally(inserted=warm)
        await bare_commits(database, tally, seconds / 2 / SLICES)
        await bare_inserts(database, tally, seconds / SLICES)
        await closed_loops(gateways, all_settled, tally, seconds / SLICES)
    tally.inserted -= warm
    for gateway in gateways:
        await gateway.stop()
    await database.close()
    return {"callers": callers, **tally.figures()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--callers", type=int, default=CALLERS, help="closed loops over both gateways")
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
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                figures = runner.run(run(url, directory / "spool", arguments.seconds, arguments.callers))
        finally:
            if server is not None:
                server.stop()
    print(msgspec.json.format(msgspec.json.encode({k: round(v, 2) for k, v in figures.items()})).decode())


async def _prepare(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute(
            text("INSERT INTO tenant (id, name) VALUES ('proj_a', 'a') ON CONFLICT DO NOTHING")
        )
        await connection.execute(
            text(
                "INSERT INTO budget (id, scope, period, limit_nanousd) VALUES ('org', 'organization', 'monthly',"
                " 1000000000000000) ON CONFLICT DO NOTHING"
            )
        )


def _settlement(name: str) -> Settlement:
    now = datetime.now(UTC)
    return settlement(Hold(reservation(name), 50_000, (), now, now), now)


def _p95_ms(taken_s: list[float]) -> float:
    return quantiles(taken_s, n=20)[-1] * 1000


if __name__ == "__main__":
    main()
