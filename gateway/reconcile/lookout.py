"""One look at every replica: what it works on now, and its journal up to here.

A replica is asked for its status first and its journal second: what the status no longer shows, the journal read
after it has. Replicas are looked at side by side; one that is silent, slow or answers nonsense holds up no other,
and a record that nobody understands is put on the review list and passed over. The journal of a replica that is
gone is read from its volume, where this machine has it. It settles nothing.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gateway.clock import Clock
from gateway.db import DATABASE_ERRORS, Database, is_unavailable
from gateway.ids import ReplicaId, RequestId
from gateway.ledger.repository.review import ReviewNote, write_notes
from gateway.obs.logging import get_logger
from gateway.reconcile.evidence import merge
from gateway.reconcile.journal import (
    JournalReader,
    JournalRecord,
    NoJournal,
    ReplicaRef,
    ReplicaUnreachable,
    UnreadableRecord,
)
from gateway.reconcile.repository.journals import cursor_of, save_page
from gateway.reconcile.volume_journal import VolumeInUse, VolumeJournal, VolumePage

__all__ = ["GONE_AFTER_S", "Lookout", "View"]

PAGE_RECORDS = 1000
PAGES_PER_PASS_MAX = 200
AT_ONCE_MAX = 8
SAVING_MAX = 2
"""Replicas are waited for side by side; the worker's few connections are for its other loops too."""
GONE_AFTER_S = 300.0
"""A replica that has been silent for this long is taken to be gone for good."""


@dataclass(slots=True)
class View:
    """What one look at the replicas told."""

    working_on: set[RequestId] = field(default_factory=set)
    readable: set[ReplicaId] = field(default_factory=set)
    """Their journals were read to the end."""
    silent: set[ReplicaId] = field(default_factory=set)
    """Not answering, for less than GONE_AFTER_S."""
    gone: set[ReplicaId] = field(default_factory=set)
    """Readable, but only their volumes: nobody will write an end to what is open there."""


class Lookout:
    """Remembers since when a replica has been silent, and how far volumes were read."""

    def __init__(self, database: Database, reader: JournalReader, clock: Clock) -> None:
        self._database = database
        self._reader = reader
        self._clock = clock
        self._silent_since_s: dict[ReplicaId, float] = {}
        self._volumes: dict[ReplicaId, VolumeJournal] = {}
        self._saving = asyncio.Semaphore(SAVING_MAX)
        self._log = get_logger(__name__)

    async def look(self, replicas: Sequence[ReplicaRef]) -> View:
        """Raises only if the database is away."""
        view, places = View(), asyncio.Semaphore(AT_ONCE_MAX)

        async def look_at(replica: ReplicaRef) -> None:
            async with places:
                await self._look_at(replica, view)

        await asyncio.gather(*(look_at(replica) for replica in replicas if replica.is_ours))
        return view

    async def _look_at(self, replica: ReplicaRef, view: View) -> None:
        try:
            if replica.stopped_at is not None:
                raise ReplicaUnreachable("it is stopped")
            status = await self._reader.status(replica)
            view.working_on |= status.request_ids
            await self._read_journal(replica, is_last_look=status.is_draining)
        except NoJournal:
            return
        except ReplicaUnreachable as error:
            await self._without_answer(replica, view, error)
            return
        except DATABASE_ERRORS as error:
            if is_unavailable(error):
                raise
            self._log.exception("journal_page_not_saved", replica=replica.replica_id)
            self._note_silence(replica, view)
            return
        self._silent_since_s.pop(replica.replica_id, None)
        self._volumes.pop(replica.replica_id, None)
        view.readable.add(replica.replica_id)

    async def _read_journal(self, replica: ReplicaRef, *, is_last_look: bool) -> None:
        """Asking for what follows acknowledges what was saved; a draining replica waits for that."""
        async with self._saving, self._database.transaction() as connection:
            cursor = await cursor_of(connection, replica.replica_id)
        for _ in range(PAGES_PER_PASS_MAX):
            page = await self._reader.read(replica, cursor, PAGE_RECORDS)
            cursor = page.cursor
            await self._save(replica, cursor, page.records, page.unreadable)
            if page.is_complete and not (is_last_look and page.records):
                return
        raise ReplicaUnreachable("the journal grows faster than it is read")

    async def _without_answer(self, replica: ReplicaRef, view: View, error: ReplicaUnreachable) -> None:
        """Its volume tells what it had done, unless somebody still writes there."""
        is_gone = self._note_silence(replica, view)
        if not (is_gone or replica.stopped_at is not None) or replica.journal_dir is None:
            return
        try:
            await self._read_volume(replica, Path(replica.journal_dir))
        except (OSError, VolumeInUse) as problem:
            self._log.warning(
                "journal_volume_not_read", replica=replica.replica_id, error=repr(problem), cause=str(error)
            )
            return
        view.silent.discard(replica.replica_id)
        view.readable.add(replica.replica_id)
        view.gone.add(replica.replica_id)

    def _note_silence(self, replica: ReplicaRef, view: View) -> bool:
        """Whether it has been silent for so long that it is gone for good."""
        now_s = self._clock.monotonic()
        if now_s - self._silent_since_s.setdefault(replica.replica_id, now_s) >= GONE_AFTER_S:
            return True
        view.silent.add(replica.replica_id)
        return False

    async def _read_volume(self, replica: ReplicaRef, directory: Path) -> None:
        volume = self._volumes.setdefault(replica.replica_id, VolumeJournal(directory))
        pages = volume.pages()

        def following() -> VolumePage | None:
            return next(pages, None)

        while (page := await asyncio.to_thread(following)) is not None:
            await self._save(replica, None, (), page.unreadable)
            for first in range(0, len(page.records), PAGE_RECORDS):
                await self._save(replica, None, page.records[first : first + PAGE_RECORDS], ())

    async def _save(
        self,
        replica: ReplicaRef,
        cursor: str | None,
        records: Sequence[JournalRecord],
        unreadable: Sequence[UnreadableRecord],
    ) -> None:
        async with self._saving, self._database.transaction() as connection:
            await write_notes(connection, [_note(replica, one) for one in unreadable])
            await save_page(connection, replica.replica_id, cursor, merge(replica.replica_id, records))
        if unreadable:
            self._log.error("journal_records_unreadable", replica=replica.replica_id, records=len(unreadable))


def _note(replica: ReplicaRef, one: UnreadableRecord) -> ReviewNote:
    return ReviewNote(
        "unreadable_record",
        f"{replica.replica_id}:{one.digest}",
        replica_id=replica.replica_id,
        details={"record": one.shown, "error": one.error},
    )
