"""The spool: what was promised is there after a crash, what was torn is not, and one process owns it."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.ledger.spool import Spool, SpoolLocked


def test_records_survive_and_are_forgotten_once_applied(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "gw")
    spool.append([b"one", b"two"])
    spool.append([b"three"])
    spool.close()
    spool = Spool(tmp_path, "gw")
    assert spool.read() == [b"one", b"two", b"three"]
    spool.remove_first(2)
    spool.append([b"four"])
    assert len(spool) == 2
    spool.close()
    assert _reopened(tmp_path) == [b"three", b"four"]


@pytest.mark.parametrize("kept", range(1, 13))
def test_a_torn_last_line_is_skipped_and_does_not_spoil_the_next(tmp_path: Path, kept: int) -> None:
    spool = Spool(tmp_path, "gw")
    spool.append([b"whole", b"torn"])
    spool.close()
    path = tmp_path / "gw.spool"
    whole = path.read_bytes().index(b"\n") + 1
    path.write_bytes(path.read_bytes()[: whole + kept])
    spool = Spool(tmp_path, "gw")
    spool.append([b"next"])
    assert spool.read() == [b"whole", b"next"]
    spool.close()


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "gw")
    spool.append([b"amount 100", b"amount 200"])
    spool.close()
    path = tmp_path / "gw.spool"
    path.write_bytes(path.read_bytes().replace(b"amount 100", b"amount 900"))
    assert _reopened(tmp_path) == [b"amount 200"]


def test_two_processes_cannot_share_a_gateway_id(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "gw")
    with pytest.raises(SpoolLocked):
        Spool(tmp_path, "gw")
    Spool(tmp_path, "other").close()
    spool.close()
    Spool(tmp_path, "gw").close()


def test_what_the_database_refuses_is_kept_apart(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "gw")
    spool.reject(b"bad")
    assert spool.read() == []
    assert b"bad" in (tmp_path / "gw.rejected").read_bytes()
    spool.close()


def _reopened(directory: Path) -> list[bytes]:
    spool = Spool(directory, "gw")
    records = spool.read()
    spool.close()
    return records


def test_a_full_disk_loses_nothing_that_was_promised(tmp_path: Path) -> None:
    """The half of a failed write is neither kept nor glued to what is written when there is room again."""
    spool = Spool(tmp_path, "gw")
    spool.append([b"first"])
    with _no_file_beyond(30):
        with pytest.raises(OSError, match="too large"):
            spool.append([b"second", b"x" * 100])
        spool.reject(b"still possible")
    assert (len(spool), spool.read()) == (1, [b"first"])
    spool.append([b"third"])
    assert spool.read() == [b"first", b"third"]
    with _no_file_beyond(10):  # what is applied can be forgotten without any room
        spool.remove_first(2)
    assert (len(spool), spool.read()) == (0, [])
    spool.append([b"fourth"])
    spool.close()
    assert _reopened(tmp_path) == [b"fourth"]


@contextmanager
def _no_file_beyond(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
