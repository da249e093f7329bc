"""The command line as a whole: help without heavy imports, completion, and the schema."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from gateway.cli import app
from gateway.migrate import head_revision

RUNNER = CliRunner()


@pytest.fixture
def environ(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("TOLLWAY_SECURITY__KEY_PEPPER", "a pepper of the tests")


@pytest.mark.usefixtures("environ")
def test_migrate_says_where_it_is() -> None:
    result = RUNNER.invoke(app, ["migrate"])
    assert (result.exit_code, result.stdout) == (0, f"schema revision {head_revision()}\n")


def test_help_answers_without_the_heavy_packages() -> None:
    code = "import sys; import gateway.cli; print([m for m in ('sqlalchemy', 'aiohttp', 'openai', 'numpy', 'engine') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_shown_for_a_shell(shell: str) -> None:
    code = "import sys; sys.argv[0] = 'tollway'; from gateway.cli import app; app(prog_name='tollway')"
    shown = subprocess.run(
        [sys.executable, "-c", code, "--show-completion", shell],
        capture_output=True, text=True, check=True, env=os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
    ).stdout  # fmt: skip
    assert "_TOLLWAY_COMPLETE" in shown


def test_completion_names_the_commands() -> None:
    code = "from gateway.cli import app; app(prog_name='tollway')"
    asked = {"_TOLLWAY_COMPLETE": "complete_bash", "COMP_WORDS": "tollway pl", "COMP_CWORD": "1"}
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | asked
    ).stdout
    assert shown.split() == ["plan"]
