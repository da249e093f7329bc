"""Blobs under keys: written whole or not at all, read in pieces from any place, deleted. And the directory that holds
them on one machine, or on a network that can rename.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import IO, Protocol, TypeVar, TypeVarTuple, Unpack

__all__ = ["BlobError", "Blobs", "DirectoryBlobs", "checked"]

Args = TypeVarTuple("Args")
Done = TypeVar("Done")
CHUNK_BYTES = 1 << 20
_UNFINISHED = ".part"
_KEY = re.compile(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*")


class BlobError(Exception):
    """The store cannot be reached, or refuses; a sentence for the log."""


class Blobs(Protocol):
    address: str
    """For people; holds no secret."""

    async def write(self, key: str, pieces: AsyncIterator[bytes]) -> int:
        """How many bytes it has. Whoever reads the key sees this content or what was there before; if `pieces` raises,
        so does this, and nothing has changed. Raises BlobError."""
        ...

    def read(self, key: str, offset: int = 0) -> AsyncIterator[bytes]:
        """From the byte `offset` on, which must be before the end unless it is 0. Raises FileNotFoundError, BlobError."""
        ...

    async def delete(self, key: str) -> None:
        """One that is not there is no error. Raises BlobError."""
        ...

    async def delete_all(self, prefix: str) -> int:
        """Everything whose key begins with `prefix` and a slash; how much it was. Raises BlobError."""
        ...


class DirectoryBlobs:
    def __init__(self, root: Path) -> None:
        self._root = root
        self.address = str(root)

    async def write(self, key: str, pieces: AsyncIterator[bytes]) -> int:
        path = self._root / checked(key)
        try:
            file = await asyncio.to_thread(_begin, path)
        except OSError as error:
            raise self._failed("written", error) from error
        try:
            async for piece in pieces:
                await self._on_disk(file.write, piece)
            await self._on_disk(_finish, file, path)
            return (await asyncio.to_thread(path.stat)).st_size
        finally:
            await asyncio.shield(asyncio.to_thread(_abandon, file))

    async def read(self, key: str, offset: int = 0) -> AsyncIterator[bytes]:
        path = self._root / checked(key)
        try:
            file = await asyncio.to_thread(path.open, "rb")
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._failed("read", error) from error
        with file:
            file.seek(offset)
            while piece := await self._on_disk(file.read, CHUNK_BYTES):
                yield piece

    async def delete(self, key: str) -> None:
        await self._on_disk(_delete, self._root / checked(key))

    async def delete_all(self, prefix: str) -> int:
        return await self._on_disk(_delete_all, self._root / checked(prefix))

    async def _on_disk(self, act: Callable[[Unpack[Args]], Done], *arguments: *Args) -> Done:
        try:
            return await asyncio.to_thread(act, *arguments)
        except OSError as error:
            raise self._failed("used", error) from error

    def _failed(self, verb: str, error: OSError) -> BlobError:
        return BlobError(f"{self._root} cannot be {verb}: {error.strerror}")


def checked(key: str) -> str:
    """Keys are made of our own ids; anything else is a bug, and might leave the directory."""
    assert _KEY.fullmatch(key), "a key is made of ids and slashes"
    return key


def _begin(path: Path) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return tempfile.NamedTemporaryFile(  # closed by _abandon, whatever happens
        dir=path.parent, prefix=path.name + ".", suffix=_UNFINISHED, delete=False, buffering=CHUNK_BYTES
    )


def _finish(file: IO[bytes], path: Path) -> None:
    file.flush()
    os.fsync(file.fileno())
    Path(file.name).rename(path)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _abandon(file: IO[bytes]) -> None:
    """Whatever was not finished goes."""
    file.close()
    Path(file.name).unlink(missing_ok=True)


def _delete(path: Path) -> None:
    """With what writers that were killed have left of it."""
    path.unlink(missing_ok=True)
    if path.parent.is_dir():
        for unfinished in path.parent.glob(f"{path.name}.*{_UNFINISHED}"):
            unfinished.unlink(missing_ok=True)


def _delete_all(directory: Path) -> int:
    if not directory.is_dir():
        return 0
    number = sum(path.is_file() for path in directory.rglob("*"))
    shutil.rmtree(directory)
    return number
