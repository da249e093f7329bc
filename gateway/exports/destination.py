"""From a destination as it is written in the settings or on the command line to the store that it means."""

from __future__ import annotations

from pathlib import Path

from gateway.blobs.destination import bucket_of, credentials_of, is_bucket
from gateway.exports.bucket import BucketStore
from gateway.exports.store import BlobStore, DirectoryStore
from gateway.settings import ExportSettings

__all__ = ["configured_store", "store_of"]

STAGING = "var/exports"


def configured_store(settings: ExportSettings) -> BlobStore | None:
    return store_of(settings.destination, settings) if settings.destination is not None else None


def store_of(destination: str, settings: ExportSettings) -> BlobStore:
    """Raises SettingsError for what is no destination, or credentials that cannot be read."""
    if not is_bucket(destination):
        return DirectoryStore(Path(destination).expanduser())
    bucket, options = bucket_of(destination, {"staging"})
    staging = Path(options.get("staging", STAGING))
    return BucketStore(bucket, credentials_of(settings.s3_credentials_file), staging)
