"""`tollway export`: a summary on standard output, a sentence when it cannot be done."""

from __future__ import annotations

import asyncio
import hashlib
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
    assert "jsonl/2026-01-10_2026-01-11/all" in err
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
