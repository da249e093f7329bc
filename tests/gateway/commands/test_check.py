"""`tollway check` as a command, against a running gateway."""

import asyncio
import json

import pytest
from click.testing import Result
from typer.testing import CliRunner

from gateway.cli import app
from tests.fakes.engine import FakeEngine
from tests.harness import Gateway

RUNNER = CliRunner()


async def _check(gateway: Gateway, *flags: str) -> Result:
    return await asyncio.to_thread(
        RUNNER.invoke, app, ["check", gateway.url, "--admin-key", gateway.admin_key, *flags]
    )


@pytest.fixture
def configured(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    monkeypatch.setenv("DATABASE_URL", gateway.database_url)
    monkeypatch.setenv("TOLLWAY_SECURITY__KEY_PEPPER", "a pepper of the tests")
    monkeypatch.setenv("TOLLWAY_UPSTREAM__INTERNAL_KEY", "engine-key")
    monkeypatch.setenv("TOLLWAY_DATABASE__CONNECT_TIMEOUT_S", "60")
    monkeypatch.setenv("TOLLWAY_DATABASE__STATEMENT_TIMEOUT_S", "60")
    return gateway


async def test_a_served_model_passes_and_a_lost_replica_fails(
    configured: Gateway, engine: FakeEngine
) -> None:
    await configured.serve(engine)
    good = await _check(configured, "--json")
    assert good.exit_code == 0, good.stdout + good.stderr
    lines = {line["name"]: line["verdict"] for line in json.loads(good.stdout)["checks"]}
    assert [lines[name] for name in ("gateway", "database", "replicas", "engines", "routes")] == ["pass"] * 5
    assert (lines["headroom"], lines["key pepper"]) == ("warn", "warn")
    assert (await _check(configured, "--strict")).exit_code == 1
    await configured.sql("UPDATE replica SET state = 'lost'")
    bad = await _check(configured)
    assert bad.exit_code == 1
    assert "none ready in" in bad.stdout


async def test_what_cannot_be_asked_is_one_sentence(configured: Gateway) -> None:
    wrong = await asyncio.to_thread(RUNNER.invoke, app, ["check", configured.url, "--admin-key", "tw-no"])
    assert (wrong.exit_code, wrong.stderr.count("\n")) == (1, 1)
    none = await asyncio.to_thread(RUNNER.invoke, app, ["check"], env={"OPENAI_ADMIN_KEY": None})
    assert none.stderr.startswith("error: give --admin-key or set OPENAI_ADMIN_KEY")
