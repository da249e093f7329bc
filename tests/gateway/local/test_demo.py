"""The demo's file and keys. The requests themselves are made in tests/e2e, on the real stack."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from gateway.clock import SystemClock
from gateway.db import Database
from gateway.local.demo import ENGINE_URL, LOOK_S, EngineAddress, Environment, Tenancy
from gateway.local.seed import seed
from gateway.settings import Settings
from tests.fakes.clock import ManualClock
from tests.gateway.local.test_seed import OFFER, SPEC


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="test")
    yield database
    await database.close()


def test_the_file_is_the_owners_and_is_read_back(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "demo.env")
    assert environment.read() == {}
    values = {"OPENAI_API_KEY": "tw-abc", "DATABASE_URL": "postgresql://u:p@h/d?a=b c&d='e'"}
    for _ in range(2):
        environment.write(values)
        assert environment.read() == values
        assert environment.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["demo.env"]


def test_a_shell_reads_the_same_values(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "demo.env")
    environment.write({"A": "it's $HOME `date`", "B": "plain"})
    shell = ["sh", "-c", '. "$1"; printf "%s|%s" "$A" "$B"', "sh", str(environment.path)]
    shown = subprocess.run(shell, capture_output=True, text=True, check=True).stdout
    assert shown == "it's $HOME `date`|plain"


async def test_a_tenant_key_is_new_each_time_and_the_admin_key_only_once(database: Database) -> None:
    settings = Settings.model_validate({"security": {"key_pepper": "a pepper of the tests"}})
    tenancy = Tenancy(database, settings, SystemClock(), os.urandom)
    first, second = await tenancy.new_tenant_key(), await tenancy.new_tenant_key()
    assert first.startswith("tw-")
    assert first != second
    admin = await tenancy.first_admin_key()
    assert admin is not None
    assert admin.startswith("tw-")
    assert await tenancy.first_admin_key() is None
    async with database.read() as session:
        assert (
            await session.scalar(text("SELECT count(*) FROM audit_log")) == 8
        )  # the admin key and its owner among them


async def test_the_engines_address_follows_the_replica_that_is_ready(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    await seed(database, SPEC, OFFER, SystemClock())
    environment, clock = Environment(tmp_path / "demo.env"), ManualClock()
    environment.write({"OPENAI_API_KEY": "tw-abc", ENGINE_URL: "http://127.0.0.1:1"})
    address = EngineAddress(environment, OFFER.pool_name, clock)

    async def noted(*replicas: tuple[str, str, str]) -> str:
        async with database.write() as session:
            await session.execute(text("DELETE FROM replica"))
            for id, state, url in replicas:
                await session.execute(
                    text(
                        "INSERT INTO replica (id, pool_id, node, state, url) SELECT :id, id, 'n', :state, :url FROM pool"
                    ),
                    {"id": id, "state": state, "url": url},
                )
        clock.advance(LOOK_S)
        await address.look(database_url)
        return environment.read()[ENGINE_URL]

    old, new = "http://127.0.0.1:1", "http://127.0.0.1:2"
    assert await noted(("a", "ready", old)) == old
    assert await noted(("a", "stopped", old), ("b", "starting", new)) == old
    assert await noted(("a", "stopped", old), ("b", "ready", new)) == new
    assert environment.read()["OPENAI_API_KEY"] == "tw-abc"
    await address.look("postgresql://nobody@127.0.0.1:1/x")  # not yet: it was just looked
    clock.advance(LOOK_S)
    await address.look("postgresql://nobody@127.0.0.1:1/x")
    assert environment.read()[ENGINE_URL] == new
