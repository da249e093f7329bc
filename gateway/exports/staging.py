"""The directory in which an export grows: parts under a temporary name until they are whole, and how far it has come.

A part gets its name when its bytes are on the disk; the checkpoint that mentions it is replaced after that. Killed at
any instant, the directory holds only whole parts that the checkpoint knows, and rubbish that `open` removes. Nobody
else writes in it: its lock ends with the process that holds it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gateway.exports.types import Checkpoint, ExportBusy, ExportError, ExportSpec, PartFile

__all__ = ["MANIFEST", "Staging", "sha256_of", "sync"]

MANIFEST = "manifest.json"
_CHECKPOINT = "checkpoint.json"
_UNFINISHED = ".unfinished"


class Staging:
    """Made by `open`, which holds the lock."""

    def __init__(self, directory: Path, checkpoint: Checkpoint | None) -> None:
        self.directory = directory
        self.checkpoint = checkpoint

    @classmethod
    @contextmanager
    def open(cls, root: Path, spec: ExportSpec, *, resume: bool = True) -> Iterator[Staging]:
        """The export's directory under `root`, as the last process left it. Raises ExportBusy, or ExportError if
        `root` cannot be written."""
        name = spec.prefix.replace("/", "_")
        directory = root / name
        try:
            root.mkdir(parents=True, exist_ok=True)
            lock = os.open(root / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ExportError(f"{root} cannot be written: {error.strerror}") from error
        try:
            _lock(lock, directory)
            if not resume:
                shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(exist_ok=True)
            yield cls(directory, _recovered(directory))
        finally:
            os.close(lock)

    def unfinished(self, name: str) -> Path:
        """Where to write a part until it is whole."""
        return self.directory / (name + _UNFINISHED)

    def finish(self, name: str, rows: int) -> PartFile:
        """The part is whole: onto the disk and under its name."""
        path = self.unfinished(name)
        sync(path)
        part = PartFile(name, rows, path.stat().st_size, sha256_of(path))
        path.rename(self.directory / name)
        sync(self.directory)
        return part

    def save(self, checkpoint: Checkpoint) -> None:
        self._replace(_CHECKPOINT, msgspec.json.encode(checkpoint))
        self.checkpoint = checkpoint

    def seal(self, manifest: bytes) -> None:
        """Nothing is left but the parts and the manifest."""
        self._replace(MANIFEST, manifest)
        (self.directory / _CHECKPOINT).unlink(missing_ok=True)
        sync(self.directory)

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def _replace(self, name: str, content: bytes) -> None:
        path = self.unfinished(name)
        path.write_bytes(content)
        sync(path)
        path.rename(self.directory / name)
        sync(self.directory)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """A file's bytes, or a directory's names, are on the disk when this returns."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ExportBusy(f"another process is writing {directory}") from None


def _recovered(directory: Path) -> Checkpoint | None:
    """The checkpoint, if every part that it names is there as it was; whatever it does not name is removed."""
    try:
        checkpoint = msgspec.json.decode((directory / _CHECKPOINT).read_bytes(), type=Checkpoint)
    except (OSError, msgspec.DecodeError):
        checkpoint = None
    parts = checkpoint.parts if checkpoint is not None else ()
    if not all(_is_whole(directory / part.name, part) for part in parts):
        checkpoint, parts = None, ()
    known = {part.name for part in parts}
    for path in directory.iterdir():
        if path.name not in known:
            path.unlink()
    return checkpoint


def _is_whole(path: Path, part: PartFile) -> bool:
    return path.is_file() and path.stat().st_size == part.bytes and sha256_of(path) == part.sha256
