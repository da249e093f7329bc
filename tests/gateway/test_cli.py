"""The commands: help without heavy imports, and errors as one sentence."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from gateway.cli import app

RUNNER = CliRunner()


@pytest.fixture
def environ(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("TOLLWAY_SECURITY__KEY_PEPPER", "a pepper of the tests")


@pytest.mark.usefixtures("environ")
def test_migrate_says_where_it_is() -> None:
    result = RUNNER.invoke(app, ["migrate"])
    assert (result.exit_code, result.stdout) == (0, "schema revision 0001\n")


@pytest.mark.usefixtures("environ")
def test_bootstrap_shows_a_key_once() -> None:
    first = RUNNER.invoke(app, ["admin", "bootstrap"])
    assert first.exit_code == 0
    assert first.stdout.startswith("tw-")
    second = RUNNER.invoke(app, ["admin", "bootstrap"])
    assert second.exit_code == 1
    assert second.stderr == "error: This installation has an admin key already.\n"


def test_an_unknown_setting_names_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOLLWAY_SERVER__PROT", "1")
    result = RUNNER.invoke(app, ["worker"])
    assert result.exit_code == 1
    assert "did you mean TOLLWAY_SERVER__PORT" in result.stderr


def test_help_answers_without_the_heavy_packages() -> None:
    code = "import sys; import gateway.cli; print([m for m in ('sqlalchemy', 'aiohttp', 'openai') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"
