"""Many callers, and callers that behave badly, at the HTTP edge of a whole engine: real processes, real sockets.

`make callers` opens a thousand connections, CI 250.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import aiohttp
import psutil

from tests.engine.server.test_slow_readers import BODY, slow_caller
from tests.engine.test_core_process import serving
from tests.engine.test_process import running_engine
from tests.models import write_tiny_llama

CALLERS = int(os.environ.get("ENGINE_CALLERS", "250"))
SLOW_READERS, CHOICES = 4, 16
SLOW_READER_BYTES = 7 << 20
"""What docs/engine-api.md states for a stream of so many choices (2.9 MiB, and a write of 0.5 MiB), twice, since what
Python counts is not what the system has given."""


async def test_a_thousand_callers_at_once(tmp_path: Path) -> None:
    """Each on a connection of its own, all open at the same time, streaming and not: each gets its whole answer, and the
    engine is as it was."""
    _allow_files(CALLERS + 512)
    flags = ("--max-num-queued-reqs", str(CALLERS), "--max-num-queued-tokens", str(CALLERS * 64))
    model = write_tiny_llama(tmp_path / "model")
    async with serving(model, *flags, "--queue-deadline-s", "600") as engine:
        before = await engine.status()
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(
            engine.url,
            headers=engine.session.headers,
            connector=connector,
            timeout=aiohttp.ClientTimeout(600),
        ) as session:
            everybody = asyncio.Barrier(CALLERS)

            async def call(number: int) -> str:
                body = {"model": "m", "prompt": f"Lamp {number}", "max_tokens": 2, "ignore_eos": True}
                raw = json.dumps({**body, "stream": number % 2 == 0}).encode()

                async def in_two_pieces() -> AsyncIterator[bytes]:
                    """Its last byte goes when everybody has a connection and has begun."""
                    yield raw[:-1]
                    await everybody.wait()
                    yield raw[-1:]

                async with session.post("/v1/completions", data=in_two_pieces()) as answer:
                    text = await answer.text()
                    assert answer.status == 200, text
                    return text

            texts = await asyncio.gather(*map(call, range(CALLERS)))
        print(f"{CALLERS} connections at once")
        assert all("data: [DONE]" in text or json.loads(text)["choices"] for text in texts)
        after = await engine.status()
        assert (after["epoch"], after["pid"], after["waiting"]) == (before["epoch"], before["pid"], 0)


def _allow_files(count: int) -> None:
    """A connection is a file, at this end too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard == resource.RLIM_INFINITY or hard >= count, f"ulimit -n is {hard}; {count} are needed"
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


async def test_slow_readers_are_bounded_in_bytes(tmp_path: Path) -> None:
    """Unbounded, each of these leaves 30 MiB to be read."""
    # Steps of a usual length: else news wait between the processes, and the test measures that.
    async with running_engine(tmp_path, FAKE_CORE_STEP_S="0.02") as engine:
        status = await engine.until_ready()
        api = psutil.Process(status["pid"])
        assert (await engine.stream(max_tokens=3))[-1] == "[DONE]"
        before = api.memory_info().rss
        with ExitStack() as callers:
            for _ in range(SLOW_READERS):
                callers.enter_context(slow_caller(engine.port, {**BODY, "n": CHOICES, "model": "tiny"}))
            async with asyncio.timeout(180):
                while await engine.counter("engine_slow_readers") < SLOW_READERS:  # noqa: ASYNC110  # another process
                    await asyncio.sleep(0.05)
            growth = api.memory_info().rss - before
            print(f"{growth / SLOW_READERS / 2**20:.1f} MiB a reader")
            assert growth < SLOW_READERS * SLOW_READER_BYTES
