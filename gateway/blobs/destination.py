"""From a destination as it is written in the settings to the store, or the bucket, that it means."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from gateway.blobs.bucket import Bucket, BucketBlobs, Credentials
from gateway.blobs.store import Blobs, DirectoryBlobs
from gateway.settings import SettingsError, read_secret

__all__ = ["bucket_of", "credentials_of", "is_bucket", "open_blobs"]

OPTIONS = frozenset({"endpoint", "region"})


def open_blobs(destination: str, credentials_file: Path | None) -> Blobs:
    """Raises SettingsError for what is no destination, or credentials that cannot be read."""
    if not is_bucket(destination):
        return DirectoryBlobs(Path(destination).expanduser())
    bucket, _ = bucket_of(destination)
    return BucketBlobs(bucket, credentials_of(credentials_file))


def is_bucket(destination: str) -> bool:
    return "://" in destination


def bucket_of(destination: str, further: Collection[str] = ()) -> tuple[Bucket, Mapping[str, str]]:
    """The bucket, and all options that were given; `further` are known beside the bucket's own."""
    parts = urlsplit(destination)
    options = dict(parse_qsl(parts.query))
    if parts.scheme != "s3" or not parts.netloc or options.keys() - OPTIONS - set(further):
        raise SettingsError(
            f"{destination} is no destination: give a directory or s3://bucket/prefix?endpoint=…&region=…"
        )
    region = options.get("region", "us-east-1")
    return Bucket(parts.netloc, parts.path.strip("/"), options.get("endpoint"), region), options


def credentials_of(file: Path | None) -> Credentials | None:
    secret = read_secret(None, file, "exports.s3_credentials_file")
    if secret is None:
        return None
    lines = secret.decode().split()
    if len(lines) != 2:
        raise SettingsError(
            "TOLLWAY_EXPORTS__S3_CREDENTIALS_FILE: two lines are needed, access key id and secret"
        )
    return Credentials(*lines)
