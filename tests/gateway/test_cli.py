"""The commands: help without heavy imports, and errors as one sentence."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner

from gateway.cli import app
from gateway.migrate import head_revision

RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before
    structlog.reset_defaults()


@pytest.fixture
def environ(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("TOLLWAY_SECURITY__KEY_PEPPER", "a pepper of the tests")


@pytest.mark.usefixtures("environ")
def test_migrate_says_where_it_is() -> None:
    result = RUNNER.invoke(app, ["migrate"])
    assert (result.exit_code, result.stdout) == (0, f"schema revision {head_revision()}\n")


@pytest.mark.usefixtures("environ")
def test_bootstrap_shows_a_key_once() -> None:
    first = RUNNER.invoke(app, ["admin", "bootstrap"])
    assert first.exit_code == 0
    assert first.stdout.startswith("tw-")
    second = RUNNER.invoke(app, ["admin", "bootstrap"])
    assert second.exit_code == 1
    assert second.stderr == "error: This installation has an admin key already.\n"


@pytest.mark.usefixtures("environ")
def test_passwords_come_from_stdin_and_are_refused_in_a_sentence() -> None:
    bootstrap = ["admin", "bootstrap", "--password"]
    assert RUNNER.invoke(app, bootstrap, input="correct horse battery\n").exit_code == 2, (
        "there is no address"
    )
    bootstrap += ["--email", "Owner@example.com"]
    short = RUNNER.invoke(app, bootstrap, input="short\n")
    assert (short.exit_code, short.stderr) == (1, "error: A password has 12 to 1024 characters.\n")
    first = RUNNER.invoke(app, bootstrap, input="correct horse battery\n")
    assert first.exit_code == 0, first.stderr
    assert first.stdout.startswith("tw-")
    again = RUNNER.invoke(
        app, ["admin", "set-password", "owner@example.com"], input="another long password\n"
    )
    assert (again.exit_code, again.stdout[:5]) == (0, "user_")
    nobody = RUNNER.invoke(app, ["admin", "set-password", "x@example.com"], input="another long password\n")
    assert (nobody.exit_code, nobody.stderr) == (1, "error: There is no user x@example.com.\n")


@pytest.mark.usefixtures("environ")
def test_data_and_review_answer_in_lines_and_sentences() -> None:
    assert RUNNER.invoke(app, ["review", "list"]).stdout == ""
    result = RUNNER.invoke(app, ["review", "resolve", "1", "--how", "looked"])
    assert (result.exit_code, result.stderr) == (1, "error: There is no open item 1.\n")
    for wrong in (
        ["list", "--after", str(1 << 63)],
        ["resolve", str(1 << 63), "--how", "x"],
        ["rebuild", "9999-12-31"],
    ):
        assert RUNNER.invoke(app, ["review", *wrong]).exit_code == 2, "a mistake of whoever typed it"
    result = RUNNER.invoke(app, ["data", "forget", "proj_a", "alice"])
    assert result.stdout == "forgotten: 0\n"
    result = RUNNER.invoke(app, ["data", "delete", "proj_a"], input="n\n")
    assert result.exit_code == 1
    result = RUNNER.invoke(app, ["data", "delete", "proj_a", "--yes"])
    assert result.stderr == "error: There is no project proj_a.\n"


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


def test_help_answers_without_the_heavy_packages() -> None:
    code = "import sys; import gateway.cli; print([m for m in ('sqlalchemy', 'aiohttp', 'openai') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"


@pytest.mark.usefixtures("environ")
def test_secrets_are_rotated_in_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"KEY_PEPPER_FILE": tmp_path / "pepper", "MASTER_KEY_FILE": tmp_path / "master"}
    result = RUNNER.invoke(app, ["secrets", "rotate-pepper"])
    assert (result.exit_code, result.stderr.count("KEY_PEPPER_FILE")) == (1, 1), "given by the environment"
    monkeypatch.delenv("TOLLWAY_SECURITY__KEY_PEPPER")
    for name, file in files.items():
        file.write_text("a secret of sixteen bytes")
        monkeypatch.setenv(f"TOLLWAY_SECURITY__{name}", str(file))
    assert RUNNER.invoke(app, ["admin", "bootstrap", "--email", "owner@example.com"]).exit_code == 0
    for command, name in (
        (["rotate-pepper", "--standby"], "p2"),
        (["rotate-pepper"], "p2"),
        (["rotate-master-key"], "m2"),
        (["drop-master-key", "m1"], ""),
    ):
        result = RUNNER.invoke(app, ["secrets", *command])
        assert (result.exit_code, result.stdout.strip()) == (0, name), command
    refused = RUNNER.invoke(app, ["secrets", "drop-pepper", "p1"])
    assert (refused.exit_code, refused.stderr.startswith("error: p1 is needed: 1 keys")) == (1, True)
    lines = RUNNER.invoke(app, ["secrets", "status"]).stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["pepper", "p2", "0", "current"],
        ["pepper", "p1", "1"],
        ["master", "key", "m2", "0", "current"],
    ]
