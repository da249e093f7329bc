"""A directory as a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.exports.store import DirectoryStore
from gateway.exports.types import ExportConflict, ExportError


def _built(at: Path, manifest: bytes = b"{}") -> Path:
    at.mkdir(parents=True)
    (at / "manifest.json").write_bytes(manifest)
    (at / "part-00001.csv").write_bytes(b"x" * 3_000_000)
    return at


async def test_published_whole_and_read_in_pieces(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    assert await store.manifest("csv/p/all") is None
    await store.publish("csv/p/all", _built(store.staging / "one"))
    assert await store.manifest("csv/p/all") == b"{}"
    pieces = [piece async for piece in store.read("csv/p/all", "part-00001.csv")]
    assert (len(pieces), b"".join(pieces)) == (3, b"x" * 3_000_000)
    with pytest.raises(FileNotFoundError):
        await anext(store.read("csv/p/all", "part-00002.csv"))


async def test_the_same_again_is_left_alone_and_another_is_a_conflict(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    await store.publish("csv/p/all", _built(store.staging / "one"))
    await store.publish("csv/p/all", _built(store.staging / "one"))
    with pytest.raises(ExportConflict, match="other contents"):
        await store.publish("csv/p/all", _built(store.staging / "one", b"{ }"))
    assert await store.manifest("csv/p/all") == b"{}"


async def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    (tmp_path / "csv").write_text("in the way")
    with pytest.raises(ExportError, match="cannot be"):
        await store.publish("csv/p/all", _built(store.staging / "one"))
