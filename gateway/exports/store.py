"""Where finished exports are kept: a directory, or a bucket (s3.py).

A store shows an export whole or not at all: the manifest is there exactly when every file that it names is. An export
that is there already with the same manifest is left alone; one with another manifest is a conflict, since closed data
does not change.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from gateway.exports.staging import MANIFEST, sync
from gateway.exports.types import ExportConflict, ExportError

__all__ = ["BlobStore", "DirectoryStore", "same_or_conflict"]

_CHUNK_BYTES = 1 << 20


class BlobStore(Protocol):
    address: str
    """For people and for the run's row; holds no secret."""
    staging: Path
    """Where an export for this store is built."""

    async def manifest(self, prefix: str) -> bytes | None:
        """The manifest of a published export."""
        ...

    async def publish(self, prefix: str, directory: Path) -> None:
        """Everything in `directory` becomes the export; `directory` may be gone afterwards. Raises ExportConflict."""
        ...

    def read(self, prefix: str, name: str) -> AsyncIterator[bytes]:
        """A published file, in pieces. Raises FileNotFoundError, or ExportError if the store cannot be reached."""
        ...


class DirectoryStore:
    """A directory of this machine, or of a network that can rename. Staging is inside it, so publishing is one rename."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.address = str(root)
        self.staging = root / ".staging"

    async def manifest(self, prefix: str) -> bytes | None:
        return await asyncio.to_thread(self._manifest, prefix)

    async def publish(self, prefix: str, directory: Path) -> None:
        await asyncio.to_thread(self._publish, prefix, directory)

    async def read(self, prefix: str, name: str) -> AsyncIterator[bytes]:
        try:
            file = (self._root / prefix / name).open("rb")
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ExportError(f"{self._root} cannot be read: {error.strerror}") from error
        with file:
            while piece := await asyncio.to_thread(file.read, _CHUNK_BYTES):
                yield piece

    def _manifest(self, prefix: str) -> bytes | None:
        try:
            return (self._root / prefix / MANIFEST).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ExportError(f"{self._root} cannot be read: {error.strerror}") from error

    def _publish(self, prefix: str, directory: Path) -> None:
        target = self._root / prefix
        if same_or_conflict(self._manifest(prefix), (directory / MANIFEST).read_bytes(), str(target)):
            shutil.rmtree(directory)
            return
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            directory.rename(target)
            sync(target.parent)
        except OSError as error:
            raise ExportError(f"{target} cannot be written: {error.strerror}") from error


def same_or_conflict(found: bytes | None, ours: bytes, place: str) -> bool:
    """Whether the export is there already."""
    if found is not None and found != ours:
        raise ExportConflict(f"{place} holds an export of the same period with other contents")
    return found is not None
