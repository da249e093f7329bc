"""The pool process: supervises a real row, needs its key, and by default leaves engines to its successor."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from gateway.db import Database
from gateway.ids import ReplicaId
from gateway.pool.local import LocalLauncher
from gateway.pool.models import Pool
from tests.gateway.pool.conftest import KEY, STUB, stub_spec, until
from tests.patience import PATIENT


@pytest.fixture
def environ(database_url: str, tmp_path: Path) -> dict[str, str]:
    ours = {
        **PATIENT,
        "DATABASE_URL": database_url,
        "TOLLWAY_UPSTREAM__INTERNAL_KEY": KEY,
        "TOLLWAY_POOL__RUN_DIR": str(tmp_path / "run"),
        "PYTHONPATH": f"{STUB}:{Path.cwd()}",
        "PYTHONSAFEPATH": "1",
    }
    return dict(os.environ) | ours


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="test")
    async with database.write() as session:
        session.add(Pool(id="pool_stub", name="stub", spec=stub_spec().model_dump(mode="json")))
    yield database
    await database.close()


async def _supervise(environ: dict[str, str], database: Database, *flags: str) -> str:
    """Run the process until a replica is ready, then end it; returns the replica's epoch."""
    command = (sys.executable, "-m", "gateway", "pool", *flags)
    process = await asyncio.create_subprocess_exec(*command, env=environ, stdout=asyncio.subprocess.DEVNULL)
    epochs: list[str] = []
    supervised = text(
        "SELECT epoch FROM replica JOIN supervisor_lease USING (node) WHERE state = 'ready' AND expires_at > now()"
    )

    async def ready() -> bool:
        async with database.read() as session:
            epochs[:] = list(await session.scalars(supervised))
        return bool(epochs)

    try:
        await until(ready)
    finally:
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 120) == 0
    return epochs[0]


async def test_engines_outlive_the_process_unless_told_otherwise(
    environ: dict[str, str], database: Database, tmp_path: Path
) -> None:
    launcher = LocalLauncher(tmp_path / "run", key=KEY)
    try:
        first = await _supervise(environ, database)
        assert len(await launcher.strays([])) == 1
        assert await _supervise(environ, database, "--drain-on-exit") == first
        assert await launcher.strays([]) == ()
    finally:
        for replica in await launcher.strays([]):
            await launcher.kill(ReplicaId(replica), None)
    async with database.read() as session:
        assert await session.scalar(text("SELECT state FROM replica")) == "stopped"


async def test_it_needs_the_key_that_engines_trust(environ: dict[str, str]) -> None:
    del environ["TOLLWAY_UPSTREAM__INTERNAL_KEY"]
    command = (sys.executable, "-m", "gateway", "pool")
    process = await asyncio.create_subprocess_exec(
        *command, env=environ, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode == 1
    assert b"set TOLLWAY_UPSTREAM__INTERNAL_KEY_FILE" in errors
