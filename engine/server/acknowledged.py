"""How far a reader has taken over the journal: whoever asks for what comes behind a cursor has kept what is before it.

A drained engine stays until everything is acknowledged, since its address and perhaps its volume go with it. The
last cursor asked with is a file beside the segments, so that every API process and the next start know it. A journal
that nobody ever paged through keeps nobody waiting. Blocks on files: run it in a thread. Knows no HTTP.
"""

from __future__ import annotations

import os
from pathlib import Path

from engine.server.journal_reader import CursorError, read_page

_NAME = "acknowledged"


def acknowledge(directory: Path, cursor: str) -> None:
    """Everything before the cursor is kept elsewhere. The name is changed last: a torn file is never read."""
    path = directory / _NAME
    if _read(path) == cursor:
        return
    fresh = directory / f"{_NAME}.{os.getpid()}"
    fresh.write_text(cursor, encoding="ascii")
    fresh.replace(path)


def is_acknowledged(directory: Path) -> bool:
    """Whether no record waits for a reader that has paged through this journal before."""
    cursor = _read(directory / _NAME)
    if cursor is None:
        return True
    try:
        page = read_page(directory, cursor, limit=1)
    except CursorError:  # it was acknowledged with something that is no cursor of ours
        return True
    return page.complete and not page.records


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii")
    except FileNotFoundError:
        return None
