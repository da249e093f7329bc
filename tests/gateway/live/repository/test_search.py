"""What people type is text, whatever it looks like."""

from __future__ import annotations

from gateway.db import Database
from gateway.live.repository.search import EACH_MAX, Search
from tests.conftest import execute


async def test_names_are_matched_as_they_are(database_url: str) -> None:
    for number in range(EACH_MAX + 3):
        execute(database_url, f"INSERT INTO tenant (id, name) VALUES ('proj_{number}', 'Acme {number}%')")
    database = Database(database_url, name="test-search", pool_size=1)
    async with database.read() as session:

        async def count(text: str, own: list[str] | None = None) -> int:
            return len(await Search().find(session, text, own, keys=True))

        assert await count("acme") == EACH_MAX
        assert await count("3%") == 1
        assert await count("_cme") == 0
        assert await count("proj_3") == 1
        assert await count("acme", ["proj_1", "proj_2"]) == 2
        assert await count("acme", []) == 0
    await database.close()
