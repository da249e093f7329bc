"""An S3-compatible bucket as a store: files first, the manifest last, each object whole or not there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import obstore
from obstore.exceptions import BaseError

from gateway.blobs.bucket import PIECE_BYTES, PIECES_AT_ONCE, Bucket, Credentials, connected
from gateway.exports.staging import MANIFEST
from gateway.exports.store import same_or_conflict
from gateway.exports.types import ExportError

__all__ = ["BucketStore"]


class BucketStore:
    def __init__(self, bucket: Bucket, credentials: Credentials | None, staging: Path) -> None:
        self.address = bucket.address
        self.staging = staging
        self._store = connected(bucket, credentials)

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
                self._store, key, path, chunk_size=PIECE_BYTES, max_concurrency=PIECES_AT_ONCE
            )
        except (BaseError, OSError) as error:
            raise _failed(self.address, "written", error) from error


def _content(directory: Path) -> tuple[bytes, list[Path]]:
    """The manifest, and all files with the manifest last."""
    manifest = directory / MANIFEST
    files = sorted(path for path in directory.iterdir() if path != manifest)
    return manifest.read_bytes(), [*files, manifest]


def _failed(address: str, verb: str, error: Exception) -> ExportError:
    """The first line says what happened; the client's own debugging text follows it."""
    return ExportError(f"{address} cannot be {verb}: {str(error).splitlines()[0]}")
