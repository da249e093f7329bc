"""The demo's file and keys. The requests themselves are made in tests/e2e, on the real stack."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from gateway.clock import SystemClock
from gateway.db import Database
from gateway.local.demo import Environment, Tenancy
from gateway.settings import Settings


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
