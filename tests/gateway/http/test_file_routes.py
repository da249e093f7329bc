"""`/v1/files` through the strict `openai` client."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import openai
import pytest

from gateway.batches.files import FILE_BYTES_MAX, Sweeper
from tests.harness import Gateway, Tenant

LINES = b'{"custom_id": "a"}\n' * 3


def strict(gateway: Gateway, tenant: Tenant) -> openai.AsyncOpenAI:
    return gateway.client(tenant, _strict_response_validation=True)


async def test_a_file_from_its_upload_to_its_end(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    files = strict(gateway, tenant).files
    made = await files.create(file=("in put.jsonl", LINES), purpose="batch")
    assert (made.object, made.bytes, made.filename, made.purpose) == (
        "file",
        len(LINES),
        "in put.jsonl",
        "batch",
    )
    assert (made.id.startswith("file-"), made.status) == (True, "processed")
    assert made.expires_at is not None
    assert 0 <= made.expires_at - made.created_at - 30 * 86_400 <= 5
    assert await files.retrieve(made.id) == made
    assert (await files.content(made.id)).read() == LINES
    deleted = await files.delete(made.id)
    assert (deleted.id, deleted.deleted, deleted.object) == (made.id, True, "file")
    for gone in (files.retrieve, files.content, files.delete):
        with pytest.raises(openai.NotFoundError):
            await gone(made.id)
    assert await gateway.events(0) == []


async def test_anothers_file_is_as_unknown_as_none(gateway: Gateway) -> None:
    """Duty F34: a file's id means nothing to another tenant: 404, in the words for one that never was."""
    owner, other = await gateway.tenant("owner"), await gateway.tenant("other")
    made = await strict(gateway, owner).files.create(file=("f.jsonl", LINES), purpose="batch")
    answers = []
    for file_id in (made.id, "file-" + "0" * 32):
        for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
            answer = await gateway.request(method, f"/v1/files/{file_id}{path}", None, other.key)
            answers.append((answer.status, (await answer.text()).replace(file_id, "ID")))
    assert set(answers) == {(404, answers[0][1])}
    assert (await strict(gateway, other).files.list()).data == []
    assert (await strict(gateway, other).files.list(after=made.id)).data == []
    assert [file.id async for file in strict(gateway, owner).files.list()] == [made.id]


async def test_lists_have_pages(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    files = strict(gateway, tenant).files
    made = [(await files.create(file=(f"{n}.jsonl", LINES), purpose="batch")).id for n in range(5)]
    page = await files.list(limit=2)
    assert ([file.id for file in page.data], page.has_more) == ([made[4], made[3]], True)
    assert [file.id async for file in files.list(limit=2)] == made[::-1]
    assert [file.id async for file in files.list(limit=3, order="asc")] == made
    assert [file.id async for file in files.list(purpose="batch_output")] == []
    for query in ({"limit": 0}, {"limit": 10_001}, {"extra_query": {"orderr": "asc"}}):
        with pytest.raises(openai.BadRequestError):
            await files.list(**query)  # type: ignore[arg-type]  # on purpose


async def test_the_time_to_live_is_the_callers(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    files = strict(gateway, tenant).files
    made = await files.create(
        file=("f.jsonl", LINES), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert made.expires_at is not None
    assert 0 <= made.expires_at - made.created_at - 3600 <= 5
    wrong: list[dict[str, Any]] = [
        {"anchor": "created_at", "seconds": 3599},
        {"anchor": "created_at", "seconds": 2_592_001},
        {"anchor": "created_at", "seconds": "soon"},
        {"anchor": "last_active_at", "seconds": 3600},
        {"anchor": "created_at"},
    ]
    for policy in wrong:
        with pytest.raises(openai.BadRequestError) as caught:
            await files.create(file=("f.jsonl", LINES), purpose="batch", expires_after=policy)  # type: ignore[arg-type]  # wrong
        assert (caught.value.param or "").startswith("expires_after.")


async def test_what_has_expired_is_not_there_and_then_gone(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    files = strict(gateway, tenant).files
    made = await files.create(file=("f.jsonl", LINES), purpose="batch")
    kept = await files.create(file=("g.jsonl", LINES), purpose="batch")
    await gateway.sql("UPDATE stored_file SET expires_at = now() - interval '1s' WHERE id = $1", made.id)
    with pytest.raises(openai.NotFoundError):
        await files.content(made.id)
    app = gateway.app
    assert await Sweeper(app.database, app.blobs, app.clock).run_once() == 1
    assert await gateway.sql("SELECT id FROM stored_file") == [{"id": kept.id}]
    with pytest.raises(FileNotFoundError):
        await anext(app.blobs.read(f"{tenant.id}/{made.id}"))
    assert (await files.content(kept.id)).read() == LINES


async def _post(gateway: Gateway, tenant: Tenant, data: bytes | AsyncIterator[bytes], **headers: str) -> Any:
    answer = await gateway.request("POST", "/v1/files", None, tenant.key, data=data, headers=headers)
    return answer.status, (await answer.json())["error"]


FORM = {"content-type": "multipart/form-data; boundary=b"}


def form(*parts: tuple[str, bytes]) -> bytes:
    written = [
        f"--b\r\nContent-Disposition: form-data; {name}\r\n\r\n".encode() + content + b"\r\n"
        for name, content in parts
    ]
    return b"".join(written) + b"--b--\r\n"


FILE = ('name="file"; filename="f"', LINES)
PURPOSE = ('name="purpose"', b"batch")


BAD: list[tuple[tuple[tuple[str, bytes], ...], str]] = [
    ((FILE,), "purpose"),
    ((PURPOSE,), "file"),
    ((FILE, ('name="purpose"', b"fine-tune")), "purpose"),
    ((PURPOSE, ('name="file"; filename="f"', b"")), "file"),
    ((PURPOSE, FILE, ('name="colour"', b"red")), "colour"),
    ((PURPOSE, FILE, FILE), "file"),
    ((PURPOSE, ('name="other"; filename="f"', LINES)), "other"),
]


async def test_what_makes_no_sense_is_refused_and_not_kept(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    for parts, wanted in BAD:
        status, error = await _post(gateway, tenant, form(*parts), **FORM)
        assert (status, error["param"]) == (400, wanted)
    assert (await strict(gateway, tenant).files.list()).data == []
    soon = gateway.app.clock.now() + timedelta(hours=3)
    assert await gateway.sql("SELECT id FROM stored_file WHERE expires_at > $1", soon) == []


async def test_bodies_that_are_no_form_or_end_early(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    for data, headers in ((b"{}", {"content-type": "application/json"}), (form(PURPOSE, FILE)[:-6], FORM)):
        status, error = await _post(gateway, tenant, data, **headers)
        assert (status, error["type"]) == (400, "invalid_request_error")


async def test_too_large_is_413_however_it_is_told(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    answer = await gateway.request(
        "POST",
        "/v1/files",
        None,
        tenant.key,
        headers={**FORM, "content-length": str(FILE_BYTES_MAX * 2)},
        data=b"x",
    )
    assert answer.status == 413
    answer.close()


async def test_an_upload_is_never_in_memory(gateway: Gateway) -> None:
    """What has come is on the disk before the rest of it comes, but for a piece or two."""
    tenant = await gateway.tenant()
    head = form(PURPOSE, ('name="file"; filename="f"', b""))[: -len(b"\r\n--b--\r\n")]

    async def body() -> AsyncIterator[bytes]:
        yield head
        for _ in range(24):
            yield os.urandom(1 << 20)
        async with asyncio.timeout(60):
            while sum(path.stat().st_size for path in _stored(gateway)) < 20 << 20:  # noqa: ASYNC110  (the server's)
                await asyncio.sleep(0.02)
        yield b"\r\n--b--\r\n"

    answer = await gateway.request("POST", "/v1/files", None, tenant.key, data=body(), headers=FORM)
    assert (answer.status, (await answer.json())["bytes"]) == (200, 24 << 20)


def _stored(gateway: Gateway) -> list[Any]:
    from pathlib import Path

    return [path for path in Path(gateway.settings.server.files).rglob("*") if path.is_file()]


async def test_a_project_has_so_much_and_no_more(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    files = strict(gateway, tenant).files
    await files.create(file=("f.jsonl", LINES), purpose="batch")
    await gateway.sql("UPDATE stored_file SET bytes = $1", 50 * FILE_BYTES_MAX)
    with pytest.raises(openai.BadRequestError, match="delete some of them first"):
        await files.create(file=("f.jsonl", LINES), purpose="batch")


async def test_a_store_that_is_away_is_503(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    made = await strict(gateway, tenant).files.create(file=("f.jsonl", LINES), purpose="batch")
    root = _stored(gateway)[0].parent
    root.rename(root.with_name("away"))
    root.write_text("no directory")
    with pytest.raises(openai.InternalServerError) as caught:
        await strict(gateway, tenant).files.create(file=("f.jsonl", LINES), purpose="batch")
    assert caught.value.status_code == 503
    with pytest.raises(openai.InternalServerError):
        await strict(gateway, tenant).files.content(made.id)
