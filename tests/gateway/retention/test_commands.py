"""The operator's commands, from settings to an answer."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.errors import Conflict, NotFound
from gateway.ledger.repository.review import ReviewNote, write_notes
from gateway.retention import commands
from gateway.settings import Settings
from tests.gateway.books import Books, patient
from tests.gateway.usage_events import settled, write


@pytest.fixture
def settings(database_url: str) -> Settings:
    return Settings(database=patient(database_url))


async def test_the_review_list_is_shown_and_shortened(books: Books, settings: Settings) -> None:
    async with books.database.transaction() as connection:
        await write_notes(connection, [ReviewNote("engine_gone", "req_1", request_id="req_1")])
    (line,) = await commands.open_review(settings, 0)
    item = json.loads(line)
    assert (item["kind"], item["request_id"]) == ("engine_gone", "req_1")
    assert await commands.open_review(settings, item["id"]) == []
    await commands.resolve(settings, item["id"], "credited by hand")
    assert await books.value("SELECT resolution FROM review_item") == "credited by hand"
    with pytest.raises(NotFound):
        await commands.resolve(settings, item["id"], "again")


async def test_a_tenants_data_is_copied_forgotten_and_deleted(
    books: Books, settings: Settings, tmp_path: Path
) -> None:
    copied = await commands.copy_tenant(settings, "proj_a", tmp_path / "copy")
    assert copied["tenant"].rows == 1
    assert await commands.forget(settings, "proj_a", "nobody") == 0
    with pytest.raises(Conflict):
        await commands.delete_tenant(settings, "proj_a")


async def test_a_days_sums_are_made_anew_unless_its_period_is_closed(
    books: Books, settings: Settings
) -> None:
    at = datetime(2025, 3, 10, 12, tzinfo=UTC)
    await write(books.database, [settled(1, at)])
    await books.run("UPDATE rollup_day SET amount_nanousd = 0")
    assert (await commands.rebuild(settings, at.date())).nanousd == 3000
    assert not await commands.rebuild(settings, at.date())
    await books.run(
        "INSERT INTO billing_period VALUES ('2025-03', '2025-03-01Z', '2025-04-01Z', 1, 15, 3000)"
    )
    with pytest.raises(Conflict, match="closed"):
        await commands.rebuild(settings, at.date())
