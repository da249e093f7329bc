"""`tollway secrets`."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.cli import app

RUNNER = CliRunner()


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
