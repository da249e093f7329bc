"""The drill of `deploy/backup`: a backup of a gateway that is being used, restored, with books that balance."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from tests.conftest import execute
from tests.fakes.engine import FakeEngine
from tests.fakes.script import Script
from tests.gateway.asking import BODY, STREAM, ask
from tests.gateway.postgres_programs import environment_of, plain, run
from tests.harness import Gateway, Tenant
from tests.tidy.tree import ROOT

BACKUP = ROOT / "deploy/backup"
LESS = "completion_tokens = completion_tokens - 1, billed_completion_tokens = billed_completion_tokens - 1"
BROKEN = (
    (
        "budget_period SET held_nanousd = held_nanousd + 1",
        "budget_period SET held_nanousd = held_nanousd - 1",
        "budgets hold other sums",
    ),
    (f"attempt SET {LESS}", f"attempt SET {LESS}".replace("- 1", "+ 1"), "differ from what their attempts"),
    ("settled_request SET event_id = gen_random_uuid()", "hold SET is_lease = is_lease", "have no event"),
)
"""What could be wrong with books that every constraint accepts, and its undoing."""


@pytest.fixture
def environment(server_directory: Path) -> dict[str, str]:
    return environment_of(server_directory)


async def drill(environment: dict[str, str], *urls: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(run, environment, str(BACKUP / "drill.sh"), *map(plain, urls))


async def test_a_backup_of_a_gateway_in_use_balances(
    gateway: Gateway,
    engine: FakeEngine,
    database_url: str,
    empty_database_url: str,
    environment: dict[str, str],
) -> None:
    tenant = await gateway.serve(engine)
    budget = {"project_id": tenant.id, "period": "monthly", "limit_nanousd": 1 << 50}
    await gateway.admin("POST", "/budgets", budget)
    for body in (BODY, STREAM):
        assert (await ask(gateway, tenant, body))[0] == 200
    await gateway.events(2)
    gate = asyncio.Event()
    engine.script(Script(gate=gate))
    open_request = asyncio.create_task(ask(gateway, tenant, STREAM))
    async with asyncio.timeout(60):
        while not await gateway.sql("SELECT 1 FROM hold"):  # noqa: ASYNC110  # the batcher commits when it can
            await asyncio.sleep(0.01)
    load = asyncio.create_task(_load(gateway, tenant))
    try:
        done = await drill(environment, database_url, empty_database_url)
    finally:
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)
        gate.set()
        assert (await open_request)[0] == 200
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["restored", "the books balance"]
    check = ("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(BACKUP / "invariants.sql"))
    target = plain(empty_database_url)
    kept = run(environment, "psql", "-X", "-Atc", "SELECT count(*) FROM hold", target).stdout.strip()
    assert int(kept) >= 1, "a request was open"
    for change, undo, said in BROKEN:
        await asyncio.to_thread(execute, empty_database_url, f"UPDATE {change}")
        broken = await asyncio.to_thread(run, environment, *check, target)
        assert broken.returncode != 0
        assert said in broken.stderr
        await asyncio.to_thread(execute, empty_database_url, f"UPDATE {undo}")
    again = await drill(environment, database_url, empty_database_url)
    assert (again.returncode, "not empty" in again.stderr) == (2, True)


async def _load(gateway: Gateway, tenant: Tenant) -> None:
    while True:
        await ask(gateway, tenant, BODY)
