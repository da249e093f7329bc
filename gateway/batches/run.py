"""One turn at a batch, by whoever has its lease: check the input, ask a slice of its lines, or write its files.

A turn killed anywhere is taken up again by the next one: validation starts over, lines without a result are asked again
under their ids, files are written again under theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Literal

from gateway.batches import answers
from gateway.batches.files import KEPT
from gateway.batches.keeper import Keeper
from gateway.batches.lines import check_lines, read_line
from gateway.batches.naming import result_file_id
from gateway.batches.parts import Parts
from gateway.batches.repository.files import insert_file
from gateway.batches.repository.running import (
    answered_lines,
    begin_finalizing,
    begin_work,
    end,
    page_of_results,
    release,
)
from gateway.batches.results import LeaseLost, ResultWriter
from gateway.batches.slice import Place, Slice, lines_from
from gateway.batches.types import BatchState, FileRow, Lease, LineError, blob_key
from gateway.blobs import BlobError
from gateway.events import Event, EventType, announce
from gateway.obs.failpoints import failpoint
from gateway.obs.logging import get_logger

__all__ = ["BatchRun"]

RESULTS_PER_PAGE = 50
EXPIRED_AT_ONCE = 200
STORE_AWAY_S = 15.0
START = Place(1, 0)
KEY_GONE = LineError(
    "invalid_api_key",
    "The API key that the batch ran under was revoked or has expired, and so did its successors.",
)
INPUT_GONE = LineError("file_not_found", "The input file is not there any more.")

_ENDS: Mapping[BatchState, EventType] = {
    "completed": "batch.completed",
    "failed": "batch.failed",
    "expired": "batch.expired",
    "cancelled": "batch.cancelled",
}
_log = get_logger(__name__)


class BatchRun:
    def __init__(self, parts: Parts, lease: Lease, is_stopping: Callable[[], bool]) -> None:
        self._p = parts
        self._lease = lease
        self._is_stopping = is_stopping
        self._keeper = Keeper(parts.database, lease, parts.standing, parts.clock, parts.terms.lease_s)
        self._results = ResultWriter(parts.database, lease)

    async def run(self) -> str:
        """How the turn ended: `done` with the batch, `released` for another turn, or `lost`."""
        beside = [asyncio.create_task(self._keeper.run()), asyncio.create_task(self._results.run())]
        try:
            await self._keeper.begin()
            return await self._turn()
        except LeaseLost:
            return "lost"
        except FileNotFoundError:
            await self._end("failed", errors=[INPUT_GONE])
            return "done"
        except BlobError as error:
            _log.error("batch_waits_for_its_files", batch=self._lease.batch.id, error=str(error))
            await self.release(None, STORE_AWAY_S)
            return "released"
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def release(self, place: Place | None, pause_s: float) -> None:
        at = (place.line, place.offset) if place is not None else None
        async with self._p.database.transaction() as connection:
            await release(connection, self._lease, at, pause_s)

    async def _turn(self) -> str:
        if self._lease.batch.state == "validating":
            ended = await self._validate()
            if ended is not None:
                return ended
        batch = self._lease.batch
        if batch.state == "finalizing":
            return await self._finish("completed")
        if batch.state == "cancelling":
            return await self._finish("cancelled")
        work = Slice(self._p, self._lease, self._keeper, self._results, self._is_stopping)
        place = await work.run()
        if self._keeper.is_lost:
            raise LeaseLost
        if place.line > batch.total:
            return await self._complete()
        if self._keeper.state == "cancelling":
            return await self._finish("cancelled")
        if self._keeper.principal is None:
            return await self._finish("cancelled", [KEY_GONE])
        if self._p.clock.now() >= batch.expires_at:
            await self._expire_rest()
            return await self._finish("expired")
        await self.release(place, work.pause_s)
        return "released"

    async def _validate(self) -> str | None:
        """None if the input is good, and the work can begin."""
        batch, now = self._lease.batch, self._p.clock.now
        checked = await check_lines(lines_from(self._p, self._lease, START), batch.endpoint)
        if checked.errors:
            await self._end("failed", errors=checked.errors)
            return "done"
        async with self._p.database.transaction() as connection:
            is_begun = await begin_work(connection, self._lease, checked.total, checked.model, now())
        if not is_begun and not self._keeper.is_lost:
            return await self._finish("cancelled")
        good = replace(batch, state="in_progress", total=checked.total, model=checked.model)
        self._lease = replace(self._lease, batch=good)
        return None

    async def _complete(self) -> str:
        async with self._p.database.transaction() as connection:
            is_mine = await begin_finalizing(connection, self._lease, self._p.clock.now())
        return await self._finish("completed" if is_mine else "cancelled")

    async def _expire_rest(self) -> None:
        """Every line without a result gets one that says why."""
        batch = self._lease.batch
        async with self._p.database.transaction() as connection:
            done = await answered_lines(connection, self._lease)
        place = Place(max(1, self._lease.next_line), self._lease.next_offset)
        waiting = []
        async for raw in lines_from(self._p, self._lease, place):
            if raw.number in done:
                continue
            line = read_line(raw, batch.endpoint)
            waiting.append(self._results.put(answers.expired(batch.id, raw.number, line.custom_id)))
            self._p.metrics.batch_lines.labels("expired").inc()
            if len(waiting) == EXPIRED_AT_ONCE:
                await asyncio.gather(*waiting)
                waiting.clear()
        await asyncio.gather(*waiting)

    async def _finish(self, state: BatchState, errors: Sequence[LineError] = ()) -> str:
        output = await self._write("output")
        failed = await self._write("error")
        failpoint("batch.files_written")
        await self._end(state, output, failed, errors)
        return "done"

    async def _end(
        self,
        state: BatchState,
        output: FileRow | None = None,
        failed: FileRow | None = None,
        errors: Sequence[LineError] = (),
    ) -> None:
        async with self._p.database.transaction() as connection:
            for row in (output, failed):
                if row is not None:
                    await insert_file(connection, row, is_ready=True)
            is_mine = await end(
                connection,
                self._lease,
                state,
                self._p.clock.now(),
                output_file_id=output.id if output is not None else None,
                error_file_id=failed.id if failed is not None else None,
                errors=errors,
            )
            if not is_mine:
                raise LeaseLost  # and nothing of this is there
            await announce(connection, [self._event(state)])
        _log.info("batch ended", batch=self._lease.batch.id, state=state)

    def _event(self, state: BatchState) -> Event:
        """With what OpenAI's says: the batch's id."""
        batch = self._lease.batch
        return Event(_ENDS[state], batch.tenant_id, batch.id, {"id": batch.id}, self._p.clock.now())

    async def _write(self, kind: Literal["output", "error"]) -> FileRow | None:
        """None if there is nothing to write. Its row comes with the end of the batch: until then whoever ends it writes
        the same blob again."""
        batch, now = self._lease.batch, self._p.clock.now()
        file_id = result_file_id(batch.id, kind)
        if not await self._page(kind, 0, 1):
            return None
        size = await self._p.blobs.write(blob_key(batch.tenant_id, file_id), self._content(kind))
        kept = batch.output_expires_after_s
        expires_at = now + (KEPT if kept is None else timedelta(seconds=kept))
        name = f"{batch.id}_{kind}.jsonl"
        return FileRow(batch.tenant_id, file_id, "batch_output", name, size, now, expires_at)

    async def _content(self, kind: Literal["output", "error"]) -> AsyncIterator[bytes]:
        after = 0
        while page := await self._page(kind, after, RESULTS_PER_PAGE):
            yield "".join(f"{content}\n" for _, content in page).encode()
            after = page[-1][0]

    async def _page(self, kind: Literal["output", "error"], after: int, limit: int) -> list[tuple[int, str]]:
        async with self._p.database.transaction() as connection:
            return await page_of_results(
                connection, self._lease, is_error=kind == "error", after=after, limit=limit
            )
