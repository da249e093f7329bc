"""Looking at the devices now and then, beside the supervisor's steps: a driver that hangs must not cost it its lease."""

import asyncio

from gateway.clock import Clock
from gateway.obs.logging import get_logger
from gateway.pool.devices.inventory import Inventory, merged
from gateway.pool.devices.smi import DeviceSource

__all__ = ["DeviceWatch"]

EVERY_S = 15.0
FIRST_S = 5.0
"""Waited for before anything is started: after that, names stay as they were given until the driver answers."""


class DeviceWatch:
    def __init__(self, source: DeviceSource, clock: Clock) -> None:
        self.inventory = Inventory()
        self._source = source
        self._clock = clock
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = 0.0
        self._log = get_logger(__name__)

    async def refresh(self) -> None:
        """Begin a look if one is due; only the first is waited for."""
        now, is_first = self._clock.monotonic(), self._looking is None
        if self._looking is None or (self._looking.done() and now - self._looked_at >= EVERY_S):
            self._looked_at = now
            self._looking = asyncio.create_task(self._look())
        if is_first:
            await asyncio.wait({self._looking}, timeout=FIRST_S)

    async def _look(self) -> None:
        try:
            found = await self._source.look()
        except OSError as error:
            self._log.error("the devices cannot be looked at", error=repr(error))
            return
        if found is None:
            return
        now = merged(self.inventory, found)
        for gpu in now.gpus:
            before = self.inventory.find(gpu.uuid)
            why = now.why_not(gpu.uuid)
            if why is not None and (before is None or (before.fault or before.doubt) != why):
                self._log.error("device in trouble", gpu=gpu.index, uuid=gpu.uuid, reason=why)
        self.inventory = now
