"""`tollway admin`: what needs the database."""

import pytest
from typer.testing import CliRunner

from gateway.cli import app

RUNNER = CliRunner()


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
