"""`tollway data`."""

import pytest
from typer.testing import CliRunner

from gateway.cli import app

RUNNER = CliRunner()


@pytest.mark.usefixtures("environ")
def test_data_answers_in_lines_and_sentences() -> None:
    result = RUNNER.invoke(app, ["data", "forget", "proj_a", "alice"])
    assert result.stdout == "forgotten: 0\n"
    result = RUNNER.invoke(app, ["data", "delete", "proj_a"], input="n\n")
    assert result.exit_code == 1
    result = RUNNER.invoke(app, ["data", "delete", "proj_a", "--yes"])
    assert result.stderr == "error: There is no project proj_a.\n"
