"""An S3-compatible bucket as a store: files first, the manifest last, each object whole or not there.

obstore does the talking: one wheel without dependencies, async, and it sends large files in pieces.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from gateway.exports.staging import MANIFEST
from gateway.exports.store import same_or_conflict
from gateway.exports.types import ExportError

if TYPE_CHECKING:
    from obstore.store import S3Config

__all__ = ["Bucket", "BucketStore", "Credentials"]

_PIECE_BYTES = 8 << 20
_PIECES_AT_ONCE = 4
_RETRIES = 4
_RETRY_TIME = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Credentials:
    access_key_id: str
    secret_access_key: str


@dataclass(frozen=True, slots=True)
class Bucket:
    """Without an endpoint it is AWS's."""

    name: str
    prefix: str = ""
    endpoint: str | None = None
    region: str = "us-east-1"


class BucketStore:
    def __init__(self, bucket: Bucket, credentials: Credentials | None, staging: Path) -> None:
        self.address = f"s3://{bucket.name}/{bucket.prefix}".rstrip("/")
        self.staging = staging
        self._store = _connected(bucket, credentials)

    async def manifest(self, prefix: str) -> bytes | None:
        try:
            found = await obstore.get_async(self._store, f"{prefix}/{MANIFEST}")
            return bytes(await found.bytes_async())
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            raise _failed(self.address, "read", error) from error

    async def publish(self, prefix: str, directory: Path) -> None:
        manifest, files = await asyncio.to_thread(_content, directory)
        if same_or_conflict(await self.manifest(prefix), manifest, f"{self.address}/{prefix}"):
            return
        for path in files:
            await self._put(f"{prefix}/{path.name}", path)

    async def read(self, prefix: str, name: str) -> AsyncIterator[bytes]:
        try:
            found = await obstore.get_async(self._store, f"{prefix}/{name}")
            async for piece in found.stream():
                yield bytes(piece)
        except FileNotFoundError:
            raise
        except (BaseError, OSError) as error:
            raise _failed(self.address, "read", error) from error

    async def _put(self, key: str, path: Path) -> None:
        try:
            await obstore.put_async(
                self._store, key, path, chunk_size=_PIECE_BYTES, max_concurrency=_PIECES_AT_ONCE
            )
        except (BaseError, OSError) as error:
            raise _failed(self.address, "written", error) from error


def _content(directory: Path) -> tuple[bytes, list[Path]]:
    """The manifest, and all files with the manifest last."""
    manifest = directory / MANIFEST
    files = sorted(path for path in directory.iterdir() if path != manifest)
    return manifest.read_bytes(), [*files, manifest]


def _connected(bucket: Bucket, credentials: Credentials | None) -> S3Store:
    config: S3Config = {"region": bucket.region, "virtual_hosted_style_request": False}
    if bucket.endpoint is not None:
        config["endpoint"] = bucket.endpoint
    if credentials is not None:
        config["access_key_id"] = credentials.access_key_id
        config["secret_access_key"] = credentials.secret_access_key
    return S3Store(
        bucket.name,
        prefix=bucket.prefix or None,
        config=config,
        client_options={"allow_http": (bucket.endpoint or "").startswith("http://")},
        retry_config={"max_retries": _RETRIES, "retry_timeout": _RETRY_TIME},
    )


def _failed(address: str, verb: str, error: Exception) -> ExportError:
    """The first line says what happened; the client's own debugging text follows it."""
    return ExportError(f"{address} cannot be {verb}: {str(error).splitlines()[0]}")
