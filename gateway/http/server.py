"""uvicorn's server, which is told that it should end instead of looking ten times a second.

What an idle gateway costs is added to every stream that it serves. It knows neither the application nor the protocol.
"""

from __future__ import annotations

import asyncio
from types import FrameType

import uvicorn

__all__ = ["TICK_S", "Server"]

TICK_S = 1.0
"""The `date` header is as old at most."""


class Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            try:
                async with asyncio.timeout(TICK_S):
                    await self._told.wait()
            except TimeoutError:
                pass

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal has come, perhaps in the middle of anything."""
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._told.set)
