"""What the journal's reader has taken over, as the next start and the siblings see it."""

from __future__ import annotations

from pathlib import Path

from engine.server.acknowledged import acknowledge, is_acknowledged
from engine.server.journal import Journal, Record
from engine.server.journal_reader import read_page


async def test_a_reader_acknowledges_by_asking_for_what_follows(tmp_path: Path) -> None:
    writer = Journal(tmp_path, 0, lambda: 1)
    writer.write(Record(kind="start", request_id="gw", engine_request_id="a"))
    assert is_acknowledged(tmp_path), "nobody has ever paged through this journal"
    acknowledge(tmp_path, read_page(tmp_path, "", 10).cursor)
    assert is_acknowledged(tmp_path)
    writer.write(Record(kind="end", request_id="gw", engine_request_id="a"))
    assert not is_acknowledged(tmp_path)
    acknowledge(tmp_path, read_page(tmp_path, "", 10).cursor)
    assert is_acknowledged(tmp_path)
    writer.close()
    assert is_acknowledged(tmp_path), "a closing frame is no record"


async def test_a_cursor_of_somebody_else_keeps_nobody_waiting(tmp_path: Path) -> None:
    writer = Journal(tmp_path, 0, lambda: 1)
    writer.write(Record(kind="start", request_id="gw", engine_request_id="a"))
    acknowledge(tmp_path, "nonsense")
    assert is_acknowledged(tmp_path)
    writer.close()
