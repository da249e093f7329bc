"""Requests that were admitted while the database was away: known on the disk until they are settled.

Nothing in the database knows them. Without this file a gateway that is killed over one of them would leave tokens in
an engine's journal that no hold, and so no settlement, will ever account for. The next run under the same gateway id
writes their holds, and the reconciler resolves these like those of any lost gateway. It does not know how long an
outage may last, nor who may go on without the database.
"""

import asyncio
from dataclasses import replace

import msgspec

from gateway.db import WriteConnection
from gateway.ids import RequestId
from gateway.ledger.errors import LedgerUnavailable
from gateway.ledger.repository.budgets import limits_of
from gateway.ledger.repository.holds import restore_holds
from gateway.ledger.spool import Spool
from gateway.ledger.types import Hold, Take
from gateway.obs.logging import get_logger

__all__ = ["UnrecordedHolds"]


class UnrecordedHolds:
    """Owned by one gateway run. `file` still has what an earlier run left."""

    def __init__(self, file: Spool) -> None:
        self._file = file
        self._left = len(file)
        """How many of the first records are an earlier run's."""
        self._open: set[RequestId] = set()
        self._log = get_logger(__name__)

    @property
    def has_earlier(self) -> bool:
        """An earlier run left some, which `forget_earlier` has not forgotten yet."""
        return self._left > 0

    async def note(self, hold: Hold) -> None:
        """On the disk when it returns. Raises LedgerUnavailable if it cannot be: then nobody may be admitted."""
        self._open.add(hold.request_id)
        try:
            await asyncio.to_thread(self._file.append, [msgspec.json.encode(hold)])
        except BaseException as error:
            self._open.discard(hold.request_id)
            if not isinstance(error, OSError):
                raise
            self._log.error("spool_not_writable", operations=1, error=str(error))
            raise LedgerUnavailable from error

    def handed_over(self, hold: Hold) -> None:
        """Its settlement is in the settler's hands."""
        self._open.discard(hold.request_id)

    async def restore(self, connection: WriteConnection) -> None:
        """Give the earlier run's requests their holds, but for those that are settled. `forget_earlier` when this is
        committed; repeating it changes nothing."""
        if not self._left:
            return
        records = (await asyncio.to_thread(self._file.read))[: self._left]
        holds = [msgspec.json.decode(record, type=Hold) for record in records]
        limits = await limits_of(
            connection,
            {hold.reservation.tenant_id for hold in holds},
            {hold.reservation.key_id for hold in holds},
        )
        charged = [
            replace(
                hold,
                takes=tuple(
                    Take(*limit.key_at(hold.reserved_at), amount_nanousd=0)
                    for limit in limits.on(hold.reservation.tenant_id, hold.reservation.key_id)
                ),
            )
            for hold in holds
        ]
        await restore_holds(connection, charged)

    async def forget_earlier(self) -> None:
        if self._left:
            await asyncio.to_thread(self._file.remove_first, self._left)
            self._left = 0

    async def forget_settled(self, is_settler_idle: bool) -> None:
        """While the settler has nothing left to write, what is not open any more is in the ledger."""
        count = len(self._file)
        if count and is_settler_idle and not self._open and not self._left:
            try:
                await asyncio.to_thread(self._file.remove_first, count)
            except OSError as error:  # they are settled: a later run finds that out
                self._log.error("spool_not_writable", operations=count, error=str(error))

    def close(self) -> None:
        self._file.close()
