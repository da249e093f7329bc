"""What the operator can put right is one sentence, whatever the command."""

import logging
from collections.abc import Iterator

import pytest
import structlog
from typer.testing import CliRunner

from gateway.cli import app

RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before
    structlog.reset_defaults()


def test_an_unknown_setting_names_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOLLWAY_SERVER__PROT", "1")
    result = RUNNER.invoke(app, ["worker"])
    assert result.exit_code == 1
    assert (
        result.stderr == "error: unknown setting TOLLWAY_SERVER__PROT; did you mean TOLLWAY_SERVER__PORT?\n"
    )


@pytest.mark.parametrize(
    ("command", "environ", "said"),
    [
        ("gateway", {}, "set TOLLWAY_SECURITY__KEY_PEPPER_FILE: without a pepper no key can be checked"),
        ("pool", {}, "set TOLLWAY_UPSTREAM__INTERNAL_KEY_FILE: engines trust the gateway by it"),
        ("migrate", {"DATABASE_URL": "mysql://db/x"}, "DATABASE_URL is for mysql; give postgresql://"),
        ("migrate", {"DATABASE_URL": "here"}, "DATABASE_URL is not an address; give postgresql://"),
        (
            "migrate",
            {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/x"},
            "the database (DATABASE_URL) cannot be used: [Errno 111]",
        ),
        (
            "gateway",
            {"TOLLWAY_SECURITY__KEY_PEPPER": "a pepper of the tests", "REDIS_URL": "cache"},
            "REDIS_URL must begin with one of redis:// rediss:// unix://",
        ),
        ("worker", {"TOLLWAY_SERVER__PORT": "x"}, "TOLLWAY_SERVER__PORT: Input should be a valid integer"),
    ],
)
def test_what_the_operator_can_put_right_is_one_sentence(
    command: str, environ: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    result = RUNNER.invoke(app, [command])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {said}")


@pytest.mark.parametrize("command", ["gateway", "worker", "pool", "admin bootstrap"])
def test_a_database_without_a_schema_is_said_at_once(
    command: str, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", empty_database_url)
    monkeypatch.setenv("TOLLWAY_SECURITY__KEY_PEPPER", "a pepper of the tests")
    monkeypatch.setenv("TOLLWAY_UPSTREAM__INTERNAL_KEY", "internal")
    result = RUNNER.invoke(app, command.split())
    assert result.exit_code == 1
    assert result.stderr == "error: the database has no schema yet: run `tollway migrate`\n"
