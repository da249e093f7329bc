"""Destinations as they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.exports.bucket import BucketStore
from gateway.exports.destination import configured_store, store_of
from gateway.exports.store import DirectoryStore
from gateway.settings import ExportSettings, SettingsError


def test_a_path_is_a_directory(tmp_path: Path) -> None:
    store = store_of(str(tmp_path), ExportSettings())
    assert isinstance(store, DirectoryStore)
    assert store.staging.parent == tmp_path
    assert configured_store(ExportSettings()) is None


def test_a_bucket_and_where_its_exports_are_built(tmp_path: Path) -> None:
    store = store_of(
        f"s3://exports/a/b/?endpoint=https://s3.example:9000&staging={tmp_path}", ExportSettings()
    )
    assert isinstance(store, BucketStore)
    assert (store.address, store.staging) == ("s3://exports/a/b", tmp_path)
    assert store_of("s3://exports", ExportSettings()).staging == Path("var/exports")


def test_credentials_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("id\nsecret\n")
    settings = ExportSettings(destination="s3://exports", s3_credentials_file=file)
    store = configured_store(settings)
    assert isinstance(store, BucketStore)
    assert "secret" not in store.address
    file.write_text("id\n")
    with pytest.raises(SettingsError, match="two lines are needed"):
        configured_store(settings)
