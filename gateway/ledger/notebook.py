"""What a gateway notes beside the money: requests that it refused, and whom a pseudonym stands for.

A refused request has no usage event, but the availability of a service is counted by it: how many, per minute,
tenant, key and reason. Noting never awaits; a background task writes every few seconds and at the end. While the
database is away the counts wait in an fsynced spool. Each run counts for itself and writes sums, not differences, so
that a row written twice counts once. It does not know what a refusal means.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from gateway.clock import Clock
from gateway.db import DATABASE_ERRORS, Database
from gateway.ids import IdSource
from gateway.ledger.repository.notes import write_pseudonyms, write_refusals
from gateway.ledger.spool import Spool
from gateway.obs.logging import get_logger
from gateway.obs.metrics import Metrics

__all__ = ["Notebook", "Refusal"]

FLUSH_S = 10.0
KEEP = timedelta(minutes=2)
"""Minutes older than this have been written, and nothing is added to them any more."""
REFUSALS_MAX = 20_000
USERS_PENDING_MAX = 10_000
USERS_REMEMBERED_MAX = 50_000
USER_CHARS_MAX = 512


class Refusal(NamedTuple):
    """What refusals are counted by. Empty names where nobody was recognised, or there are too many to tell apart."""

    bucket: datetime
    tenant_id: str
    key_id: str
    served_model: str
    reason: str


class EndUser(NamedTuple):
    tenant_id: str
    user_ref: str
    end_user: str


@dataclass(frozen=True, slots=True)
class RefusalCount:
    """A row of refusal_minute: how many there have been so far, by one run of one gateway."""

    bucket: datetime
    gateway_id: str
    instance_id: str
    tenant_id: str
    key_id: str
    served_model: str
    reason: str
    requests: int


class Notebook:
    """Make it inside a running loop, `await start()`, and `await close()` at the end."""

    def __init__(
        self,
        database: Database,
        spool: Spool,
        *,
        gateway_id: str,
        clock: Clock,
        ids: IdSource,
        metrics: Metrics,
    ) -> None:
        self._database = database
        self._spool = spool
        self._gateway_id = gateway_id
        self._instance_id = ids.new("run")
        self._clock = clock
        self._metrics = metrics
        self._counts: dict[Refusal, int] = {}
        self._changed: set[Refusal] = set()
        self._new_users: set[EndUser] = set()
        self._known_users: dict[tuple[str, str], None] = {}
        self._writing = asyncio.Lock()
        self._writer: asyncio.Task[None] | None = None
        self._log = get_logger(__name__)

    async def start(self) -> None:
        """What an earlier run left in the spool is written first, or when the database is back."""
        await self.flush()
        self._writer = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
        await self.flush()
        self._spool.close()

    def refused(self, tenant_id: str, key_id: str, served_model: str, reason: str) -> None:
        """`served_model` must come from the catalogue: what callers make up would be rows without end."""
        bucket = self._clock.now().replace(second=0, microsecond=0)
        key = Refusal(bucket, tenant_id, key_id, served_model, reason)
        if key not in self._counts and len(self._counts) >= REFUSALS_MAX:
            key = Refusal(bucket, "", "", "", reason)
        self._counts[key] = self._counts.get(key, 0) + 1
        self._changed.add(key)

    def met_user(self, tenant_id: str, user_ref: str | None, end_user: str | None) -> None:
        """So that a person can be told from a pseudonym until the row is erased. Best effort: the money has the
        pseudonym, and a user who comes again is noted again."""
        if user_ref is None or end_user is None or (tenant_id, user_ref) in self._known_users:
            return
        if (
            len(end_user) <= USER_CHARS_MAX
            and "\0" not in end_user
            and len(self._new_users) < USERS_PENDING_MAX
        ):
            self._new_users.add(EndUser(tenant_id, user_ref, end_user))

    async def flush(self) -> None:
        """To the database; counts go to the disk if it is away, and stay here if that fails too."""
        async with self._writing:
            counts = [self._row(key) for key in sorted(self._changed)]
            changed, self._changed = self._changed, set()
            try:
                await self._write(counts)
            except DATABASE_ERRORS as error:
                self._log.warning("notes_not_written", refusals=len(counts), error=str(error))
                if not await self._keep(counts):
                    self._changed |= changed
            oldest = self._clock.now() - KEEP
            self._counts = {
                key: count
                for key, count in self._counts.items()
                if key.bucket > oldest or key in self._changed
            }

    async def _write(self, counts: list[RefusalCount]) -> None:
        spooled = await asyncio.to_thread(self._spool.read) if len(self._spool) else []
        known = [one for record in spooled for one in self._decoded(record)]
        if known or counts:
            async with self._database.transaction() as connection:
                await write_refusals(connection, _largest([*known, *counts]))
        if spooled:
            await asyncio.to_thread(self._spool.remove_first, len(spooled))
        users = sorted(self._new_users)
        if users:
            async with self._database.transaction() as connection:
                await write_pseudonyms(connection, users)
            self._new_users.difference_update(users)
            self._known_users.update(dict.fromkeys((user.tenant_id, user.user_ref) for user in users))
            while len(self._known_users) > USERS_REMEMBERED_MAX:
                del self._known_users[next(iter(self._known_users))]
        self._metrics.refusals_spooled.set(len(self._spool))

    def _decoded(self, record: bytes) -> list[RefusalCount]:
        try:
            return msgspec.json.decode(record, type=list[RefusalCount])
        except msgspec.MsgspecError as error:
            self._log.error("spooled_refusals_unreadable", error=str(error))
            self._spool.reject(record)
            return []

    async def _keep(self, counts: list[RefusalCount]) -> bool:
        """False if the disk does not take them either."""
        if counts:
            try:
                await asyncio.to_thread(self._spool.append, [msgspec.json.encode(counts)])
            except OSError as error:
                self._log.error("spool_not_writable", refusals=len(counts), error=str(error))
                return False
        self._metrics.refusals_spooled.set(len(self._spool))
        return True

    def _row(self, key: Refusal) -> RefusalCount:
        return RefusalCount(
            key.bucket, self._gateway_id, self._instance_id, *key[1:], requests=self._counts[key]
        )

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            await self.flush()


def _largest(counts: list[RefusalCount]) -> list[RefusalCount]:
    """One row per key: a run's later sum includes its earlier ones."""
    largest: dict[tuple[object, ...], RefusalCount] = {}
    for one in counts:
        key = (
            one.bucket,
            one.gateway_id,
            one.instance_id,
            one.tenant_id,
            one.key_id,
            one.served_model,
            one.reason,
        )
        if key not in largest or largest[key].requests < one.requests:
            largest[key] = one
    return [largest[key] for key in sorted(largest)]
