"""An S3-compatible bucket, and how one is reached.

obstore does the talking: one wheel without dependencies, async, and it sends large contents in pieces.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from gateway.blobs.store import BlobError, checked

if TYPE_CHECKING:
    from obstore.store import S3Config

__all__ = ["PIECES_AT_ONCE", "PIECE_BYTES", "Bucket", "BucketBlobs", "Credentials", "connected"]

PIECE_BYTES = 8 << 20
PIECES_AT_ONCE = 4
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

    @property
    def address(self) -> str:
        return f"s3://{self.name}/{self.prefix}".rstrip("/")


class BucketBlobs:
    def __init__(self, bucket: Bucket, credentials: Credentials | None) -> None:
        self.address = bucket.address
        self._store = connected(bucket, credentials)

    async def write(self, key: str, pieces: AsyncIterator[bytes]) -> int:
        counted = _Counted(pieces)
        try:
            await obstore.put_async(
                self._store, checked(key), counted, chunk_size=PIECE_BYTES, max_concurrency=PIECES_AT_ONCE
            )
        except (BaseError, OSError) as error:
            if counted.failure is not None:
                raise counted.failure from None
            raise _failed(self.address, "written", error) from error
        return counted.bytes

    async def read(self, key: str, offset: int = 0) -> AsyncIterator[bytes]:
        options: obstore.GetOptions = {"range": {"offset": offset}} if offset else {}
        try:
            found = await obstore.get_async(self._store, checked(key), options=options)
            async for piece in found.stream(min_chunk_size=PIECE_BYTES // 8):
                yield bytes(piece)
        except FileNotFoundError:
            raise
        except (BaseError, OSError) as error:
            raise _failed(self.address, "read", error) from error

    async def delete(self, key: str) -> None:
        await self._delete([checked(key)])

    async def delete_all(self, prefix: str) -> int:
        gone = 0
        try:
            async for found in obstore.list(self._store, prefix=checked(prefix)):
                gone += await self._delete([one["path"] for one in found])
        except (BaseError, OSError) as error:
            raise _failed(self.address, "read", error) from error
        return gone

    async def _delete(self, keys: list[str]) -> int:
        try:
            await obstore.delete_async(self._store, keys)
        except FileNotFoundError:
            return 0
        except (BaseError, OSError) as error:
            raise _failed(self.address, "written", error) from error
        return len(keys)


class _Counted:
    """Passes pieces on, and keeps what went wrong with their source apart from what goes wrong with the bucket."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self.bytes = 0
        self.failure: BaseException | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            piece = await anext(self._pieces)
        except StopAsyncIteration:
            raise
        except BaseException as error:
            self.failure = error
            raise OSError("the source of an upload failed") from error
        self.bytes += len(piece)
        return piece


def connected(bucket: Bucket, credentials: Credentials | None) -> S3Store:
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


def _failed(address: str, verb: str, error: Exception) -> BlobError:
    """The first line says what happened; the client's own debugging text follows it."""
    return BlobError(f"{address} cannot be {verb}: {str(error).splitlines()[0]}")
