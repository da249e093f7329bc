"""Staging: what a killed process leaves behind is either whole and known, or removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.exports.staging import MANIFEST, Staging
from gateway.exports.types import Checkpoint, ExportBusy, ExportError, PartFile, Position
from tests.gateway.exports.ledger import DAY, spec


def _part(staging: Staging, name: str, content: bytes) -> PartFile:
    staging.unfinished(name).write_bytes(content)
    return staging.finish(name, 1)


def _checkpoint(*parts: PartFile) -> Checkpoint:
    return Checkpoint(parts, Position(DAY, "e1"), {"proj_a": {"events": len(parts)}})


def test_a_checkpoint_survives_and_rubbish_does_not(tmp_path: Path) -> None:
    with Staging.open(tmp_path, spec()) as staging:
        assert staging.checkpoint is None
        saved = _checkpoint(_part(staging, "part-00001.csv", b"one"))
        staging.save(saved)
        _part(staging, "part-00002.csv", b"whole, but not in the checkpoint")
        staging.unfinished("part-00003.csv").write_bytes(b"ha")
    with Staging.open(tmp_path, spec()) as staging:
        assert staging.checkpoint == saved
        assert [path.name for path in staging.directory.iterdir()] == ["part-00001.csv"]


@pytest.mark.parametrize("damage", [b"on", b"two", None])
def test_a_damaged_part_starts_again(tmp_path: Path, damage: bytes | None) -> None:
    with Staging.open(tmp_path, spec()) as staging:
        staging.save(_checkpoint(_part(staging, "part-00001.csv", b"one")))
        path = staging.directory / "part-00001.csv"
        path.unlink() if damage is None else path.write_bytes(damage)
    with Staging.open(tmp_path, spec()) as staging:
        assert staging.checkpoint is None
        assert list(staging.directory.iterdir()) == []


def test_without_resume_it_starts_again(tmp_path: Path) -> None:
    with Staging.open(tmp_path, spec()) as staging:
        staging.save(_checkpoint(_part(staging, "part-00001.csv", b"one")))
    with Staging.open(tmp_path, spec(), resume=False) as staging:
        assert staging.checkpoint is None


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with Staging.open(tmp_path, spec()):
        with pytest.raises(ExportBusy), Staging.open(tmp_path, spec()):
            pass
        with Staging.open(tmp_path, spec("jsonl")) as other:
            assert other.directory.exists()
    with Staging.open(tmp_path, spec()) as again:
        assert again.checkpoint is None


def test_sealed_it_holds_the_manifest_and_its_parts(tmp_path: Path) -> None:
    with Staging.open(tmp_path, spec()) as staging:
        staging.save(_checkpoint(_part(staging, "part-00001.csv", b"one")))
        staging.seal(b"{}")
        assert {path.name for path in staging.directory.iterdir()} == {"part-00001.csv", MANIFEST}


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ExportError, match="cannot be written"), Staging.open(tmp_path / "file" / "x", spec()):
        pass
