"""Builds an export in its staging directory: rows from one snapshot into parts, then the manifest.

A part ends with the first change of the hour after `PART_ROWS` rows, so where parts end follows from the events alone.
After each part the position is saved; a process that takes the export up reads on from there, in a snapshot of its own,
which is the same since the period is closed. It does not know where the export goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import groupby
from typing import ParamSpec

from gateway.db import Database, WriteConnection
from gateway.exports.formats import Format, Writer
from gateway.exports.manifest import manifest_bytes, require_equal
from gateway.exports.registry import formats
from gateway.exports.repository.events import closed_snapshot, ledger_tally
from gateway.exports.staging import Staging
from gateway.exports.types import Checkpoint, ExportError, ExportRow, ExportSpec, PartFile, Position, Tally

__all__ = ["PART_ROWS", "Progress", "build"]

PART_ROWS = 500_000
_P = ParamSpec("_P")

Progress = Callable[[int, int], None]
"""Rows done and rows in all."""


async def build(
    database: Database, spec: ExportSpec, staging: Staging, progress: Progress, part_rows: int = PART_ROWS
) -> bytes:
    """The manifest, which stands in the staging directory beside all its files when this returns. Raises PeriodOpen
    and ExportMismatch."""
    async with database.transaction() as connection:
        await closed_snapshot(connection, spec)
        ledger = await ledger_tally(connection, spec)
        work = _Build(formats()[spec.format], spec, staging, part_rows)
        await work.run(connection, progress, sum(sums["events"] for sums in ledger.values()))
    require_equal(work.tally, ledger, work.format.sums)
    manifest = manifest_bytes(spec, work.parts, ledger, work.format.notes(work.tally))
    await _in_thread(staging.seal, manifest)
    return manifest


class _Build:
    def __init__(self, format: Format, spec: ExportSpec, staging: Staging, part_rows: int) -> None:
        self.format = format
        self._spec = spec
        self._staging = staging
        self._part_rows = part_rows
        found = staging.checkpoint if format.has_parts else None
        self.parts: list[PartFile] = list(found.parts) if found else []
        self.tally: Tally = {tenant: dict(sums) for tenant, sums in found.tally.items()} if found else {}
        self._position = found.position if found else None
        self._writer: Writer | None = None

    async def run(self, connection: WriteConnection, progress: Progress, total: int) -> None:
        progress(self._events(), total)
        try:
            async for rows in self.format.rows(connection, self._spec, self._position):
                await _in_thread(self._take, rows)
                progress(self._events(), total)
            await _in_thread(self._finish)
        finally:
            self._abandon()
        progress(total, total)

    def _abandon(self) -> None:
        """The file of a part that was not finished is closed, and left for `Staging.open` to remove."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(OSError):  # what could not be written has been told
                writer.close()

    def _take(self, rows: Sequence[ExportRow]) -> None:
        if not self.format.has_parts:
            self._write(rows)
            return
        for _, hour in groupby(rows, lambda row: _hour(row["occurred_at"])):
            self._take_hour(list(hour))

    def _take_hour(self, rows: Sequence[ExportRow]) -> None:
        """Rows of one hour, though perhaps not all of it."""
        last = self._position
        is_full = self._writer is not None and self._writer.rows >= self._part_rows
        if is_full and last is not None and _hour(last.occurred_at) != _hour(rows[0]["occurred_at"]):
            self._close_part()
        self._write(rows)
        self._position = Position(rows[-1]["occurred_at"], str(rows[-1]["event_id"]))

    def _write(self, rows: Sequence[ExportRow]) -> None:
        if self._writer is None:
            self._writer = self.format.open(self._staging.unfinished(self._name()), self._spec)
        self._writer.write(rows)
        self.format.add(self.tally, rows)

    def _finish(self) -> None:
        """Even an export without rows has a file."""
        if self._writer is None and not self.parts:
            self._write(())
        if self._writer is not None:
            self._close_part()

    def _close_part(self) -> None:
        assert self._writer is not None
        self._writer.close()
        self.parts.append(self._staging.finish(self._name(), self._writer.rows))
        self._writer = None
        if self._position is not None:
            self._staging.save(Checkpoint(tuple(self.parts), self._position, self.tally))

    def _name(self) -> str:
        return f"part-{len(self.parts) + 1:05d}.{self.format.suffix}"

    def _events(self) -> int:
        return sum(sums.get("events", 0) for sums in self.tally.values())


def _hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


async def _in_thread(function: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs) -> None:
    """The other loops of this process go on meanwhile. Cancelled, it still waits for the thread: nobody may write in
    the staging directory when its lock is given up."""
    running = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        await asyncio.shield(running)
    except OSError as error:  # of a file: the database is not asked in here
        raise ExportError(f"the export cannot be written: {error}") from error
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
