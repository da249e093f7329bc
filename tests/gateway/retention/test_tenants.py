"""A tenant's data: a whole copy without secrets, and a deletion that leaves the money to the last nano-dollar."""

import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.blobs import DirectoryBlobs
from gateway.db import Database
from gateway.errors import Conflict, NotFound
from gateway.ids import IdSource
from gateway.ledger.repository.notes import write_pseudonyms
from gateway.retention.repository.tenants import tenant_tables
from gateway.retention.tenants import TenantData
from tests.fakes.clock import ManualClock
from tests.gateway.books import Books
from tests.gateway.usage_events import settled, write
from tests.instants import just_now

NOW = just_now()


@pytest.fixture
def blobs(tmp_path: Path) -> DirectoryBlobs:
    return DirectoryBlobs(tmp_path / "store")


@pytest.fixture
async def data(books: Books, database_url: str, blobs: DirectoryBlobs) -> AsyncIterator[TenantData]:
    """Two tenants with events, a key, a budget and a person each."""
    database = Database(database_url, name="test-tenants", pool_size=1)
    await books.add_tenant("proj_b")
    for tenant in ("proj_a", "proj_b"):
        await books.add_budget(10**9, tenant_id=tenant)
        await books.run(
            """INSERT INTO api_key (tenant_id, id, name, public_id, secret_hmac, pepper_id)
            VALUES (:tenant, 'key_' || :tenant, 'k', 'pub_' || :tenant, decode(repeat('ab', 32), 'hex'), 'p1')""",
            tenant=tenant,
        )
    asked = [{"tenant_id": tenant, "user_ref": "ref_1"} for tenant in ("proj_a", "proj_b")]
    await write(books.database, [settled(number, NOW, asked=asked[number % 2]) for number in range(10)])
    async with books.database.transaction() as connection:
        await write_pseudonyms(connection, [("proj_a", "ref_1", "alice"), ("proj_b", "ref_1", "bob")])
    yield TenantData(database, blobs, ManualClock(NOW), IdSource())
    await database.close()


async def _money(books: Books) -> list[object]:
    return await books.rows(
        "SELECT tenant_id, user_ref, count(*)::int, sum(amount_nanousd)::bigint FROM usage_event GROUP BY 1, 2 ORDER BY 1"
    )


async def test_a_copy_is_whole_and_holds_no_secret(data: TenantData, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    copied = await data.copy("proj_a", out)
    assert {path.name for path in out.iterdir()} == {
        "manifest.json",
        *(f"{t}.jsonl" for t in tenant_tables()),
    }
    assert out.stat().st_mode & 0o077 == 0, "nobody else's to read"
    counts = {table: file.rows for table, file in copied.items() if file.rows}
    assert counts == {
        "tenant": 1, "api_key": 1, "budget": 1, "usage_event": 5, "attempt": 5, "settled_request": 5,
        "user_pseudonym": 1,
    }  # fmt: skip
    manifest = json.loads((out / "manifest.json").read_bytes())
    for table, file in manifest["tables"].items():
        content = (out / f"{table}.jsonl").read_bytes()
        assert (content.count(b"\n"), hashlib.sha256(content).hexdigest()) == (file["rows"], file["sha256"])
        assert b"proj_b" not in content
        assert b"secret" not in content
    assert b"alice" in (out / "user_pseudonym.jsonl").read_bytes()


async def test_a_copy_appears_whole_or_not_at_all(data: TenantData, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await data.copy("proj_nobody", tmp_path / "copy")
    assert not any(tmp_path.iterdir())  # noqa: ASYNC240  # a test
    (tmp_path / "copy").mkdir()
    with pytest.raises(Conflict, match="exists already"):
        await data.copy("proj_a", tmp_path / "copy")


async def test_a_deletion_takes_everything_but_the_money(data: TenantData, books: Books) -> None:
    before = await _money(books)
    with pytest.raises(Conflict, match="archive it first"):
        await data.delete("proj_a")
    await books.run("UPDATE tenant SET status = 'archived' WHERE id = 'proj_a'")
    gone = await data.delete("proj_a")
    assert {table: rows for table, rows in gone.items() if rows} == {
        "api_key": 1,
        "budget": 1,
        "user_pseudonym": 1,
    }
    assert await _money(books) == before
    assert await books.value("SELECT name FROM tenant WHERE id = 'proj_a'") == "deleted"
    for table in ("api_key", "budget", "user_pseudonym"):
        rows = await books.rows(f"SELECT DISTINCT tenant_id FROM {table}")
        assert [row[0] for row in rows] == ["proj_b"]
    audit = await books.rows("SELECT action, actor_id, tenant_id, details ->> 'api_key' FROM audit_log")
    assert [tuple(row) for row in audit] == [("project.data_deleted", "operator", "proj_a", "1")]


async def _store(books: Books, blobs: DirectoryBlobs, tenant_id: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield tenant_id.encode()

    await blobs.write(f"{tenant_id}/file-{tenant_id}", pieces())
    await books.run(
        """INSERT INTO stored_file (tenant_id, id, purpose, filename, bytes, state, created_at)
        VALUES (:tenant, 'file-' || :tenant, 'batch', 'f', 6, 'ready', now())""",
        tenant=tenant_id,
    )


async def test_files_are_copied_and_deleted_with_their_contents(
    data: TenantData, books: Books, blobs: DirectoryBlobs, tmp_path: Path
) -> None:
    for tenant_id in ("proj_a", "proj_b"):
        await _store(books, blobs, tenant_id)
    await data.copy("proj_a", tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy" / "files").iterdir()] == ["file-proj_a"]
    assert (tmp_path / "copy" / "files" / "file-proj_a").read_bytes() == b"proj_a"
    await books.run(
        """INSERT INTO batch (tenant_id, id, key_id, endpoint, input_file_id, completion_window, created_at, expires_at)
        VALUES ('proj_a', 'batch_1', 'k', 'e', 'file-proj_a', '24h', now(), now())"""
    )
    await books.run("UPDATE tenant SET status = 'archived' WHERE id = 'proj_a'")
    with pytest.raises(Conflict, match="1 batches"):
        await data.delete("proj_a")
    assert await anext(blobs.read("proj_a/file-proj_a")) == b"proj_a"
    await books.run("UPDATE batch SET state = 'cancelled'")
    gone = await data.delete("proj_a")
    assert (gone["batch"], gone["stored_file"]) == (1, 1)
    with pytest.raises(FileNotFoundError):
        await anext(blobs.read("proj_a/file-proj_a"))
    assert await anext(blobs.read("proj_b/file-proj_b")) == b"proj_b"


async def test_a_tenant_with_requests_in_flight_is_not_deleted(data: TenantData, books: Books) -> None:
    await books.run("UPDATE tenant SET status = 'archived'")
    await books.run(
        """INSERT INTO hold (request_id, instance_id, tenant_id, key_id, served_model, route_id, pool_id, endpoint,
            request_class, is_stream, client_retry_count, price_input_id, price_cached_input_id, price_output_id,
            max_prompt_tokens, max_output_tokens, estimated_prompt_tokens, amount_nanousd, takes, reserved_at,
            expires_at)
        VALUES ('req_x', 'run', 'proj_a', 'k', 'm', 'r', 'p', 'e', 'c', false, 0, 1, 2, 3, 1, 1, 1, 1, '[]', now(), now())"""
    )
    with pytest.raises(Conflict, match="1 requests"):
        await data.delete("proj_a")
    with pytest.raises(NotFound):
        await data.delete("proj_nobody")


async def test_forgetting_a_person_leaves_the_money(data: TenantData, books: Books) -> None:
    before = await _money(books)
    assert await data.forget_user("proj_a", "alice") == 1
    assert await data.forget_user("proj_a", "alice") == 0
    assert await _money(books) == before
    assert await books.value("SELECT end_user FROM user_pseudonym") == "bob"
    assert await books.value("SELECT details ->> 'pseudonyms' FROM audit_log") == "1"
