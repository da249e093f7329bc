"""A bucket on a real S3 server."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from moto.server import ThreadedMotoServer

from gateway.blobs.bucket import Bucket, Credentials
from gateway.db import Database
from gateway.exports.bucket import BucketStore
from gateway.exports.service import export
from gateway.exports.types import ExportConflict, ExportError
from tests.gateway.exports.ledger import Ledger, spec

KEYS = Credentials("key", "secret")


@pytest.fixture
def endpoint() -> Iterator[str]:
    """With one bucket, `exports`."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    client = http.client.HTTPConnection(host, port)
    for method, path in (("POST", "/moto-api/reset"), ("PUT", "/exports")):
        client.request(method, path)
        answer = client.getresponse()
        assert (answer.status, answer.read() is not None) == (200, True)
    client.close()
    yield f"http://{host}:{port}"
    server.stop()


def _store(endpoint: str, staging: Path, name: str = "exports") -> BucketStore:
    return BucketStore(Bucket(name, "tollway/prod", endpoint), KEYS, staging)


def _built(directory: Path, manifest: bytes = b"{}") -> Path:
    directory.mkdir(parents=True)
    (directory / "manifest.json").write_bytes(manifest)
    (directory / "part-00001.csv").write_bytes(b"0123456789" * 2_000_000)  # more than one piece
    return directory


async def test_published_and_read_back(endpoint: str, tmp_path: Path) -> None:
    store = _store(endpoint, tmp_path)
    assert store.address == "s3://exports/tollway/prod"
    assert await store.manifest("csv/p/all") is None
    await store.publish("csv/p/all", _built(tmp_path / "one"))
    assert await store.manifest("csv/p/all") == b"{}"
    content = b"".join([piece async for piece in store.read("csv/p/all", "part-00001.csv")])
    assert content == b"0123456789" * 2_000_000
    with pytest.raises(FileNotFoundError):
        await anext(store.read("csv/p/all", "part-00002.csv"))


async def test_the_manifest_comes_last(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever finds it finds every file; an upload that stops halfway shows no export."""
    store, put = _store(endpoint, tmp_path), BucketStore._put
    stopped = ConnectionError("the worker dies here")

    async def dies_at_the_manifest(self: BucketStore, key: str, path: Path) -> None:
        if key.endswith("manifest.json"):
            raise stopped
        await put(self, key, path)

    monkeypatch.setattr(BucketStore, "_put", dies_at_the_manifest)
    with pytest.raises(ConnectionError):
        await store.publish("csv/p/all", _built(tmp_path / "one"))
    assert await store.manifest("csv/p/all") is None
    monkeypatch.setattr(BucketStore, "_put", put)
    await store.publish("csv/p/all", tmp_path / "one")
    assert await store.manifest("csv/p/all") == b"{}"


async def test_the_same_again_is_left_alone_and_another_is_a_conflict(endpoint: str, tmp_path: Path) -> None:
    store = _store(endpoint, tmp_path)
    await store.publish("csv/p/all", _built(tmp_path / "one"))
    await store.publish("csv/p/all", _built(tmp_path / "two"))
    with pytest.raises(ExportConflict, match="s3://exports/tollway/prod/csv/p/all holds"):
        await store.publish("csv/p/all", _built(tmp_path / "three", b"{ }"))


async def test_what_cannot_be_reached_is_said_in_one_line(endpoint: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"^s3://none/tollway/prod cannot be written: ") as found:
        await _store(endpoint, tmp_path, "none").publish("csv/p/all", _built(tmp_path / "one"))
    assert "\n" not in str(found.value)
    away = BucketStore(Bucket("exports", "", "http://127.0.0.1:1"), KEYS, tmp_path)
    with pytest.raises(ExportError, match=r"^s3://exports cannot be read: "):
        await away.manifest("csv/p/all")
    with pytest.raises(ExportError, match=r"^s3://exports cannot be read: "):
        await anext(away.read("csv/p/all", "part-00001.csv"))


async def test_a_whole_export(database: Database, ledger: Ledger, endpoint: str, tmp_path: Path) -> None:
    await ledger.fill()
    store = _store(endpoint, tmp_path)
    manifest = await export(database, store, spec("parquet"), lambda done, total: None)
    assert await store.manifest(spec("parquet").prefix) == manifest
    (file,) = orjson.loads(manifest)["files"]
    content = b"".join([piece async for piece in store.read(spec("parquet").prefix, file["name"])])
    assert len(content) == file["bytes"]
    assert not (tmp_path / spec("parquet").prefix.replace("/", "_")).exists()
