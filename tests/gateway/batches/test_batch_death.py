"""Gateways killed with -9 while they work on a batch: every line is in the results once, and paid for once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from gateway.batches.naming import request_id
from gateway.batches.runner import BatchRunner
from gateway.clock import SystemClock
from gateway.ids import IdSource
from gateway.ledger.settling import SettleBatch
from gateway.obs.metrics import Metrics
from gateway.reconcile.http_journal import HttpJournalReader
from gateway.reconcile.service import Reconciler
from tests.fakes.engine import FakeEngine
from tests.fakes.script import Script
from tests.gateway.http.test_batch_routes import begin, chat_line, content, strict
from tests.harness import Gateway
from tests.patience import PATIENT

LINES = 48
POINTS = ("reserve.committed", "batch.stored", "settle.before_commit")
COST = 3 * 50 + 3 * 500
TIMEOUT_S = 800
LEASE_S = 120.0
"""A gateway that is only slow must not lose its own; that of one that was killed is ended by hand."""


@pytest.fixture
async def gateway(
    database_url: str, cache_url: str, tmp_path: Path, engine: FakeEngine
) -> AsyncIterator[Gateway]:
    """Its books are checked by these tests themselves: others have reserved."""
    async with Gateway(database_url, cache_url, tmp_path) as running:
        yield running


class Victims:
    """Each is another gateway of the installation."""

    def __init__(self, gateway: Gateway, cache_url: str, directory: Path) -> None:
        self._gateway = gateway
        self._directory = directory
        self._number = 0
        self.orders = directory / "orders"
        self.orders.mkdir()
        self._environment = {
            **os.environ,
            **PATIENT,
            "DATABASE_URL": gateway.database_url,
            "REDIS_URL": cache_url,
            "TOLLWAY_SECURITY__KEY_PEPPER": "pepper-of-the-tests-0123456789",
            "TOLLWAY_UPSTREAM__INTERNAL_KEY": "engine-key",
            "TOLLWAY_SERVER__FILES": gateway.settings.server.files,
            "TOLLWAY_TEST_MODE": "failpoints",
            "TOLLWAY_TEST_FAILPOINTS": str(self.orders),
        }

    @asynccontextmanager
    async def one(self) -> AsyncIterator[asyncio.subprocess.Process]:
        self._number += 1
        own = {
            "TOLLWAY_SERVER__GATEWAY_ID": f"victim-{self._number}",
            "TOLLWAY_LEDGER__SPOOL_DIR": str(self._directory / f"victim-{self._number}"),
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.gateway.batches.victim", str(LEASE_S), env=self._environment | own
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            if await process.wait() == -signal.SIGKILL:
                await self._gateway.sql(
                    "UPDATE batch SET run_after = now() WHERE lease_owner IS NOT NULL AND run_after > now()"
                )

    async def until(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The batch's row, once it is as wanted."""
        while True:
            [row] = await self._gateway.sql("SELECT * FROM batch")
            if condition(row):
                return row
            await asyncio.sleep(0.02)


async def test_killed_anywhere_every_line_is_answered_once_and_paid_for_once(
    gateway: Gateway, engine: FakeEngine, cache_url: str, tmp_path: Path
) -> None:
    """Duty C18: whatever a batch's gateway was doing when it was killed, nothing is lost, doubled or paid for twice."""
    client = await _idle(gateway, engine)
    engine.default = Script(token_delay_s=0.01)
    batch = await begin(client, [chat_line(f"id-{n}") for n in range(LINES)])
    victims = Victims(gateway, cache_url, tmp_path)
    async with asyncio.timeout(TIMEOUT_S):
        for number, point in enumerate(POINTS):
            wanted = 8 * number
            async with victims.one() as victim:
                await victims.until(lambda row, wanted=wanted: row["completed"] >= wanted)  # type: ignore[misc]  # bound now
                (victims.orders / point).write_text("kill")
                assert await victim.wait() == -signal.SIGKILL, point
        (victims.orders / "batch.files_written").write_text("kill")
        async with victims.one() as victim:
            assert await victim.wait() == -signal.SIGKILL
        async with victims.one():
            await victims.until(lambda row: row["state"] == "completed")
        await _reconcile(gateway, engine)
    done = await client.batches.retrieve(batch.id)
    results = await content(client, done.output_file_id)
    assert Counter(result["custom_id"] for result in results) == Counter(f"id-{n}" for n in range(LINES))
    assert (done.error_file_id, await content(client, done.error_file_id)) == (None, [])
    await _check_books(gateway, batch.id)
    assert sum(seen.state == "finished" for seen in engine.requests) >= LINES
    hit = {path.name.partition("@")[0] for path in (victims.orders / "hit").iterdir()}
    assert hit == {*POINTS, "batch.files_written"}


async def test_what_was_settled_meanwhile_is_answered_at_nobodys_cost(
    gateway: Gateway, engine: FakeEngine, cache_url: str, tmp_path: Path
) -> None:
    """Nobody took over in time, so what was in flight was settled from the journal: then that is what the line costs."""
    client = await _idle(gateway, engine)
    engine.default = Script(token_delay_s=0.2)
    await begin(client, [chat_line(f"id-{n}") for n in range(12)])
    victims = Victims(gateway, cache_url, tmp_path)
    async with asyncio.timeout(TIMEOUT_S):
        async with victims.one() as victim:
            await engine.wait_for(
                lambda: sum(seen.usage.completion_tokens == 2 for seen in engine.requests) > 3, 60
            )
            victim.kill()
            await victim.wait()
        await engine.wait_for(lambda: engine.running == 0)
        await _reconcile(gateway, engine)
        cut_off = await gateway.sql("SELECT request_id FROM usage_event WHERE status = 'cancelled'")
        assert len(cut_off) > 3
        engine.default = Script()
        async with victims.one():
            row = await victims.until(lambda row: row["state"] == "completed")
    assert (row["completed"], row["failed"], row["takeovers"]) == (12, 0, 1)
    events = await gateway.sql("SELECT request_id FROM usage_event WHERE amount_nanousd > 0")
    assert len({event["request_id"] for event in events}) == len(events) == 12
    assert await gateway.sql("SELECT FROM hold") == []


async def test_two_gateways_share_batches_and_no_line_is_asked_twice(
    gateway: Gateway, engine: FakeEngine, cache_url: str, tmp_path: Path
) -> None:
    client = await _idle(gateway, engine)
    engine.default = Script(token_delay_s=0.005)
    made = [await begin(client, [chat_line(f"{b}-{n}") for n in range(30)]) for b in range(4)]
    victims = Victims(gateway, cache_url, tmp_path)
    async with asyncio.timeout(TIMEOUT_S), victims.one(), victims.one():
        for batch in made:
            while (done := await client.batches.retrieve(batch.id)).status != "completed":  # noqa: ASYNC110  (far away)
                await asyncio.sleep(0.05)
            assert len(await content(client, done.output_file_id)) == 30
    assert len(engine.requests) == 120
    owners = await gateway.sql(
        "SELECT count(DISTINCT gateway_id) AS n FROM gateway_instance WHERE gateway_id LIKE 'v%'"
    )
    assert owners == [{"n": 2}]
    for batch in made:
        await _check_books(gateway, batch.id, lines=30)


async def test_stopped_it_finishes_what_is_in_flight_and_another_goes_on(
    gateway: Gateway, engine: FakeEngine, cache_url: str, tmp_path: Path
) -> None:
    """SIGTERM: no line is cut off, so none is asked again."""
    client = await _idle(gateway, engine)
    engine.default = Script(token_delay_s=0.03)
    batch = await begin(client, [chat_line(f"id-{n}") for n in range(LINES)])
    victims = Victims(gateway, cache_url, tmp_path)
    async with asyncio.timeout(TIMEOUT_S):
        async with victims.one() as first:
            await victims.until(lambda row: row["completed"] >= 10)
            first.send_signal(signal.SIGTERM)
            assert await first.wait() == 0
        row = await victims.until(lambda row: row["lease_owner"] is None)
        assert (row["state"], row["takeovers"]) == ("in_progress", 0)
        async with victims.one():
            await victims.until(lambda row: row["state"] == "completed")
    assert len(engine.requests) == LINES
    await _check_books(gateway, batch.id)


async def _idle(gateway: Gateway, engine: FakeEngine) -> openai.AsyncOpenAI:
    """This process only serves: the batches are the victims'."""
    tenant = await gateway.serve(engine)
    runner: BatchRunner = gateway.app.batches
    await runner.stop()
    return strict(gateway, tenant)


async def _reconcile(gateway: Gateway, engine: FakeEngine) -> None:
    """What the worker does about gateways that are gone, until nothing is open."""
    await gateway.sql(
        "UPDATE gateway_instance SET heartbeat_at = now() - interval '1h' WHERE gateway_id LIKE 'v%'"
    )
    await gateway.sql("INSERT INTO engine_epoch (replica_id, epoch) SELECT id, $1 FROM replica", engine.epoch)
    reconciler = Reconciler(
        gateway.app.database,
        HttpJournalReader(gateway.app.client, "engine-key"),
        SettleBatch(IdSource()),
        clock=SystemClock(),
        metrics=Metrics(),
        lag_s=0.0,
        gateway_silence_s=30.0,
    )
    while True:
        await reconciler.run_once()
        if not await gateway.sql("SELECT FROM hold"):
            break
        await asyncio.sleep(0.1)
    await reconciler.run_once()


async def _check_books(gateway: Gateway, batch_id: str, lines: int = LINES) -> None:
    """Of each line one event that is paid for, at the figure of its answer; journals and ledger agree."""
    events = await gateway.sql("SELECT request_id, amount_nanousd FROM usage_event WHERE amount_nanousd <> 0")
    paid = Counter(event["request_id"] for event in events)
    by_line = {
        line: [request_id(batch_id, line, run) for run in range(5) if request_id(batch_id, line, run) in paid]
        for line in range(1, lines + 1)
    }
    assert {line: ids for line, ids in by_line.items() if len(ids) != 1} == {}
    amounts = {event["request_id"]: event["amount_nanousd"] for event in events}
    assert {amounts[ids[0]] for ids in by_line.values()} == {COST}
    assert max(paid.values()) == 1
    assert await gateway.sql("SELECT FROM hold") == []
    drift = await gateway.sql(
        """
        SELECT j.request_id, j.attempt, j.prompt_tokens, a.prompt_tokens AS known FROM journal_attempt j
        LEFT JOIN attempt a USING (request_id, attempt)
        WHERE a.request_id IS NULL OR a.completion_tokens <> j.completion_tokens
        """
    )
    assert drift == []
