"""When each key was last used: noted in memory, written once a minute. Never in a request's way.

A process that is killed loses its last minute, and no more. It does not know what keys may do.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime

from gateway.clock import Clock
from gateway.db import DATABASE_ERRORS, Database, reason
from gateway.ids import KeyId
from gateway.obs.logging import get_logger
from gateway.tenancy.repository import TenancyRepository

__all__ = ["LastUsed"]

INTERVAL_S = 60.0
NOTED_MAX = 50_000

_log = get_logger(__name__)


class LastUsed:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._repository = TenancyRepository()
        self._keys: dict[KeyId, datetime] = {}
        self._admin_keys: dict[KeyId, datetime] = {}

    def note(self, key_id: KeyId, *, is_admin: bool) -> None:
        noted = self._admin_keys if is_admin else self._keys
        if key_id in noted or len(noted) < NOTED_MAX:
            noted[key_id] = self._clock.now()

    async def write_forever(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_S)
            await self.write()

    async def write(self) -> None:
        """What cannot be written now is written with the next."""
        for is_admin in (False, True):
            noted = self._admin_keys if is_admin else self._keys
            taken = dict(noted)
            noted.clear()
            if taken and not await self._write(taken, is_admin=is_admin):
                noted.update({key_id: at for key_id, at in taken.items() if key_id not in noted})

    async def _write(self, taken: Mapping[KeyId, datetime], *, is_admin: bool) -> bool:
        try:
            async with self._database.write() as session:
                await self._repository.note_use(session, taken, is_admin=is_admin)
        except DATABASE_ERRORS as error:
            _log.warning("the last use of keys is not written yet", error=reason(error))
            return False
        return True
