"""`tollway review`."""

import pytest
from typer.testing import CliRunner

from gateway.cli import app

RUNNER = CliRunner()


@pytest.mark.usefixtures("environ")
def test_review_answers_in_lines_and_sentences() -> None:
    assert RUNNER.invoke(app, ["review", "list"]).stdout == ""
    result = RUNNER.invoke(app, ["review", "resolve", "1", "--how", "looked"])
    assert (result.exit_code, result.stderr) == (1, "error: There is no open item 1.\n")
    for wrong in (
        ["list", "--after", str(1 << 63)],
        ["resolve", str(1 << 63), "--how", "x"],
        ["rebuild", "9999-12-31"],
    ):
        assert RUNNER.invoke(app, ["review", *wrong]).exit_code == 2, "a mistake of whoever typed it"
