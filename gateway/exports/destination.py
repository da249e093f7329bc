"""From a destination as it is written in the settings or on the command line to the store that it means."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from gateway.exports.bucket import Bucket, BucketStore, Credentials
from gateway.exports.store import BlobStore, DirectoryStore
from gateway.settings import ExportSettings, SettingsError, read_secret

__all__ = ["bucket_of", "configured_store", "store_of"]

STAGING = "var/exports"
_OPTIONS = {"endpoint", "region", "staging"}


def configured_store(settings: ExportSettings) -> BlobStore | None:
    return store_of(settings.destination, settings) if settings.destination is not None else None


def store_of(destination: str, settings: ExportSettings) -> BlobStore:
    """Raises SettingsError for what is no destination, or credentials that cannot be read."""
    if "://" not in destination:
        return DirectoryStore(Path(destination).expanduser())
    bucket, staging = bucket_of(destination)
    return BucketStore(bucket, _credentials(settings), staging)


def bucket_of(destination: str) -> tuple[Bucket, Path]:
    """The bucket, and where exports for it are built."""
    parts = urlsplit(destination)
    options = dict(parse_qsl(parts.query))
    if parts.scheme != "s3" or not parts.netloc or options.keys() - _OPTIONS:
        raise SettingsError(
            f"{destination} is no destination: give a directory or s3://bucket/prefix?endpoint=…&region=…"
        )
    region = options.get("region", "us-east-1")
    bucket = Bucket(parts.netloc, parts.path.strip("/"), options.get("endpoint"), region)
    return bucket, Path(options.get("staging", STAGING))


def _credentials(settings: ExportSettings) -> Credentials | None:
    secret = read_secret(None, settings.s3_credentials_file, "exports.s3_credentials_file")
    if secret is None:
        return None
    lines = secret.decode().split()
    if len(lines) != 2:
        raise SettingsError(
            "TOLLWAY_EXPORTS__S3_CREDENTIALS_FILE: two lines are needed, access key id and secret"
        )
    return Credentials(*lines)
