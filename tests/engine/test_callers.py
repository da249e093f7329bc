"""Many callers, and callers that behave badly, at the HTTP edge of a whole engine: real processes, real sockets."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

import psutil

from tests.engine.server.test_slow_readers import BODY, slow_caller
from tests.engine.test_process import running_engine

SLOW_READERS = 8
SLOW_READER_BYTES = 5 << 20
"""What docs/engine-api.md states for a stream of so many choices (1.9 MiB, and a write of 0.5 MiB), twice, since what
Python counts is not what the system has given."""


async def test_slow_readers_are_bounded_in_bytes(tmp_path: Path) -> None:
    """Unbounded, each of these leaves 17 MiB to be read."""
    async with running_engine(tmp_path) as engine:
        status = await engine.until_ready()
        api = psutil.Process(status["pid"])
        assert (await engine.stream(max_tokens=3))[-1] == "[DONE]"
        before = api.memory_info().rss
        with ExitStack() as callers:
            for _ in range(SLOW_READERS):
                callers.enter_context(slow_caller(engine.port, {**BODY, "model": "tiny"}))
            async with asyncio.timeout(60):
                while await engine.counter("engine_slow_readers") < SLOW_READERS:  # noqa: ASYNC110  # another process
                    await asyncio.sleep(0.05)
            growth = api.memory_info().rss - before
            print(f"{growth / SLOW_READERS / 2**20:.1f} MiB a reader")
            assert growth < SLOW_READERS * SLOW_READER_BYTES
