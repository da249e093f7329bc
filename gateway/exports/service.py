"""One export from beginning to end: built, published, and nothing left behind."""

from __future__ import annotations

from gateway.db import Database
from gateway.exports.builder import Progress, build
from gateway.exports.repository.events import closed_snapshot
from gateway.exports.staging import Staging
from gateway.exports.store import BlobStore
from gateway.exports.types import ExportSpec

__all__ = ["export"]


async def export(
    database: Database, store: BlobStore, spec: ExportSpec, progress: Progress, *, resume: bool = True
) -> bytes:
    """The published manifest. What another process has left unfinished is taken up unless `resume` is false."""
    async with database.transaction() as connection:
        await closed_snapshot(
            connection, spec
        )  # again when it is built; here so that a refusal leaves nothing behind
    with Staging.open(store.staging, spec, resume=resume) as staging:
        manifest = await build(database, spec, staging, progress)
        await store.publish(spec.prefix, staging.directory)
        staging.remove()
    return manifest
