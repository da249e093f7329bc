"""What only a bucket can do; the rest of its contract is in test_store.py."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gateway.blobs import BlobError
from gateway.blobs.bucket import Bucket, BucketBlobs, Credentials


async def pieces(*contents: bytes) -> AsyncIterator[bytes]:
    for content in contents:
        yield content


async def test_a_bucket_that_is_not_there_is_said(endpoint: str) -> None:
    blobs = BucketBlobs(Bucket("nowhere", "", endpoint), Credentials("key", "secret"))
    with pytest.raises(BlobError, match="s3://nowhere cannot be written"):
        await blobs.write("t/a", pieces(b"x"))
