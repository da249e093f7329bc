"""Destinations as they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.blobs import DirectoryBlobs, open_blobs
from gateway.blobs.bucket import Bucket, BucketBlobs
from gateway.blobs.destination import bucket_of
from gateway.settings import SettingsError


def test_a_path_is_a_directory(tmp_path: Path) -> None:
    blobs = open_blobs(str(tmp_path), None)
    assert isinstance(blobs, DirectoryBlobs)
    assert blobs.address == str(tmp_path)


def test_a_bucket_with_everything() -> None:
    written = "s3://files/a/b/?endpoint=https://s3.example:9000&region=eu-1&more=x"
    bucket, options = bucket_of(written, {"more"})
    assert bucket == Bucket("files", "a/b", "https://s3.example:9000", "eu-1")
    assert options["more"] == "x"
    assert bucket_of("s3://files")[0] == Bucket("files")
    assert bucket_of("s3://files")[0].address == "s3://files"


@pytest.mark.parametrize("wrong", ["s3:///a", "gs://bucket", "s3://bucket?endpont=x", "s3://b?staging=/x"])
def test_what_is_none_is_said(wrong: str) -> None:
    with pytest.raises(SettingsError, match="is no destination"):
        open_blobs(wrong, None)


def test_credentials_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("id\nsecret\n")
    blobs = open_blobs("s3://files", file)
    assert isinstance(blobs, BucketBlobs)
    assert "secret" not in blobs.address
    file.write_text("id\n")
    with pytest.raises(SettingsError, match="two lines are needed"):
        open_blobs("s3://files", file)
