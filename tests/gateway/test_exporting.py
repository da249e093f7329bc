"""`tollway export`: a summary on standard output, a sentence when it cannot be done."""

from __future__ import annotations

import asyncio
import hashlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner

from gateway.cli import app
from gateway.db import Database
from tests.gateway.books import Books
from tests.gateway.exports.ledger import DAY, Ledger

RUNNER = CliRunner()


@pytest.fixture
def environ(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("DATABASE_URL", database_url)
    yield
    structlog.reset_defaults()


async def _fill(database_url: str) -> int:
    """What the day costs."""
    database = Database(database_url, name="test-books", pool_size=2, role=None)
    books = Books(database)
    for component, price in {"input": 100, "cached_input": 10, "output": 400}.items():
        await books.run(
            f"INSERT INTO price (sku, component, valid_from, nanousd_per_token) VALUES ('tiny', '{component}', '2026-01-01Z', {price})"
        )
    await books.add_tenant()
    ledger = await Ledger.of(books)
    await ledger.fill()
    total = sum(one["amount_nanousd"] for one in (await ledger.sums()).values())
    await database.close()
    return total


def _export(*arguments: str) -> tuple[int, str, str]:
    result = RUNNER.invoke(app, ["export", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.usefixtures("environ")
def test_a_day_to_a_directory(database_url: str, tmp_path: Path) -> None:
    total = asyncio.run(_fill(database_url))
    day, root = DAY.date().isoformat(), str(tmp_path / "out")
    arguments = ("--format", "jsonl", "--from", day, "--destination", root)
    code, out, err = _export(*arguments)
    assert code == 0, err
    full_bar = r"jsonl/2026-01-10_2026-01-11/all\s.*?\b(\d+)/\1\b"
    assert re.search(full_bar, err, re.DOTALL), err
    summary, file, manifest = out.splitlines()
    assert summary == f"19 events, ${total / 10**9:.9f}".rstrip("0") + ", 19 rows"
    path, size, _, _, sha256 = file.split()
    content = Path(path).read_bytes()
    assert (len(content), hashlib.sha256(content).hexdigest()) == (int(size), sha256)
    assert Path(manifest).exists()
    assert _export(*arguments, "--no-resume")[:2] == (0, out)
    code, out, err = _export(*arguments, "--project", "proj_b")
    assert (code, "/proj_b/manifest.json" in out) == (0, True)


@pytest.mark.usefixtures("environ")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--format", "xml", "--month", "2026-01"), "there is no format xml"),
        (
            ("--format", "csv", "--month", "2026-01"),
            "give --destination, or set TOLLWAY_EXPORTS__DESTINATION",
        ),
        (
            ("--format", "csv", "--month", "2099-01", "--destination", "{}"),
            "the period to 2099-02-01 is not closed",
        ),
        (
            ("--format", "csv", "--month", "2026-01", "--project", "no", "--destination", "{}"),
            "there is no project no",
        ),
        (("--format", "csv", "--month", "2026-01", "--destination", "gs://x"), "gs://x is no destination"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    code, out, err = _export(*(argument.format(tmp_path) for argument in arguments))
    assert (code, out) == (1, "")
    assert f"error: {said}" in err


# The command as it is, with small parts; it kills itself when it has named the part that it is told.
_COMMAND = """
import functools, os, signal, sys
from gateway.cli import app
from gateway.exports import service
from gateway.exports.staging import Staging

fatal, *arguments = sys.argv[1:]
service.build = functools.partial(service.build, part_rows=4)
finish = Staging.finish

def killed(self, name, rows):
    part = finish(self, name, rows)
    if name.startswith(fatal):
        os.kill(os.getpid(), signal.SIGKILL)
    return part

Staging.finish = killed
app(arguments)
"""


@pytest.mark.usefixtures("environ")
def test_killed_it_leaves_nothing_to_see_and_goes_on(database_url: str, tmp_path: Path) -> None:
    asyncio.run(_fill(database_url))

    def run(fatal: str, destination: Path) -> subprocess.CompletedProcess[str]:
        day = DAY.date().isoformat()
        arguments = ["export", "--format", "csv", "--from", day, "--destination", str(destination)]
        command = [sys.executable, "-c", _COMMAND, fatal, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=600)

    assert run("part-00003", tmp_path / "killed").returncode == -signal.SIGKILL
    assert [path.name for path in (tmp_path / "killed").iterdir()] == [".staging"]
    before = _times(tmp_path / "killed")
    again, whole = run("none", tmp_path / "killed"), run("none", tmp_path / "whole")
    assert (again.returncode, whole.returncode) == (0, 0), again.stderr + whole.stderr
    assert again.stdout == whole.stdout.replace("/whole/", "/killed/")
    assert _files(tmp_path / "killed") == _files(tmp_path / "whole")
    taken_up = _times(tmp_path / "killed").keys() & before.keys()
    assert {name: _times(tmp_path / "killed")[name] for name in taken_up} == before
    assert set(before) == {"part-00001.csv", "part-00002.csv"}


def _files(root: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(root)): p.read_bytes()
        for p in root.rglob("*")
        if p.is_file() and p.suffix != ".lock"
    }


def _times(root: Path) -> dict[str, int]:
    """When the first two parts were written: what a second run does not do again."""
    return {path.name: path.stat().st_mtime_ns for path in root.rglob("part-0000[12].csv")}
