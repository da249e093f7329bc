"""One contract, two stores: a directory, and a bucket on a real S3 server."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.blobs import BlobError, Blobs, DirectoryBlobs
from gateway.blobs.bucket import Bucket, BucketBlobs, Credentials


@pytest.fixture(params=["directory", "bucket"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
    if request.param == "directory":
        return DirectoryBlobs(tmp_path / "files")
    endpoint = request.getfixturevalue("endpoint")
    return BucketBlobs(Bucket("files", tmp_path.name, endpoint), Credentials("key", "secret"))


async def pieces(*contents: bytes) -> AsyncIterator[bytes]:
    for content in contents:
        yield content


async def content_of(blobs: Blobs, key: str, offset: int = 0) -> bytes:
    return b"".join([piece async for piece in blobs.read(key, offset)])


async def test_what_was_written_is_read_from_any_place(blobs: Blobs) -> None:
    large = os.urandom(1 << 20) * 12  # more than one piece of a bucket's upload
    assert await blobs.write("t/a", pieces(large, b"end")) == len(large) + 3
    assert await content_of(blobs, "t/a") == large + b"end"
    assert await content_of(blobs, "t/a", len(large) - 1) == large[-1:] + b"end"
    assert await blobs.write("t/a", pieces(b"other")) == 5
    assert await content_of(blobs, "t/a") == b"other"


async def test_an_empty_one(blobs: Blobs) -> None:
    assert await blobs.write("t/none", pieces()) == 0
    assert await content_of(blobs, "t/none") == b""


async def test_a_source_that_fails_changes_nothing(blobs: Blobs) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"x" * (9 << 20)
        raise KeyError("the source")

    await blobs.write("t/a", pieces(b"before"))
    with pytest.raises(KeyError, match="the source"):
        await blobs.write("t/a", failing())
    assert await content_of(blobs, "t/a") == b"before"
    with pytest.raises(KeyError):
        await blobs.write("t/b", failing())
    with pytest.raises(FileNotFoundError):
        await content_of(blobs, "t/b")


async def test_deleted_is_not_there(blobs: Blobs) -> None:
    for key in ("t/a", "t/b", "other/a"):
        await blobs.write(key, pieces(b"x"))
    await blobs.delete("t/a")
    await blobs.delete("t/a")
    with pytest.raises(FileNotFoundError):
        await content_of(blobs, "t/a")
    assert await blobs.delete_all("t") == 1
    assert await blobs.delete_all("t") == 0
    assert await content_of(blobs, "other/a") == b"x"


async def test_a_key_stays_within_the_store(blobs: Blobs) -> None:
    for key in ("../a", "/a", "a/../b", "", "a/", "a b"):
        with pytest.raises(AssertionError):
            await blobs.write(key, pieces(b"x"))


async def test_what_cannot_be_reached_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BlobError, match="cannot be"):
        await DirectoryBlobs(tmp_path / "file").write("t/a", pieces(b"x"))


async def test_a_killed_writers_remains_go_with_the_key(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path)
    await blobs.write("t/a", pieces(b"x"))
    (tmp_path / "t" / "a.k1ll3d.part").write_bytes(b"half")
    await blobs.delete("t/a")
    assert list((tmp_path / "t").iterdir()) == []
