"""A caller that leaves at a chosen moment: while its request is queued, in prefill or in decode, streaming or not.

For an engine of one row and small steps (`FLAGS`), asked directly or through a gateway.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import aiohttp

from tests.engine.test_core_process import Engine
from tests.models import write_tiny_llama

Phase = Literal["queued", "prefill", "decode"]
PHASES: tuple[Phase, ...] = ("queued", "prefill", "decode")
WITHIN_S = 60.0
MODEL_LEN = 8192
CHUNK = 32
PREFILL_STEPS = 240
FLAGS = (
    *("--max-num-seqs", "1", "--max-num-batched-tokens", str(CHUNK), "--max-model-len", str(MODEL_LEN)),
    *("--kv-cache-memory-bytes", str(20 << 20), "--no-enable-prefix-caching"),
)


def write_model(directory: Path) -> Path:
    """With room for a prompt that takes seconds."""
    return write_tiny_llama(directory, max_position_embeddings=MODEL_LEN)


@dataclass
class Door:
    """Where the caller asks, and what the engine calls the request there."""

    url: str
    headers: dict[str, str]
    model: str = "m"


async def leave(engine: Engine, door: Door, phase: Phase, *, stream: bool) -> dict[str, Any]:
    """Ask, go away in that phase, and wait until nothing is left. Returns the request's end record."""
    async with contextlib.AsyncExitStack() as stack:
        if phase == "queued":
            await stack.enter_async_context(_blocker(engine))
        session = await stack.enter_async_context(aiohttp.ClientSession(headers=door.headers))
        before = set((await engine.status())["request_ids"])
        body = {"model": door.model, "prompt": _prompt(phase), "stream": stream, "ignore_eos": True}
        body["max_tokens"] = 20 if phase == "prefill" else 4000
        asking = asyncio.create_task(session.post(f"{door.url}/v1/completions", json=body))
        request_id = await _reached(engine, phase, before)
        if phase == "decode" and stream:
            await (await asking).content.readline()
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            (await asking).close()
        await session.close()
        async with asyncio.timeout(WITHIN_S):
            while not (end := await _records(engine, request_id, "end")):  # noqa: ASYNC110  # another process
                await asyncio.sleep(0.02)
    await until_idle(engine)
    (only,) = end
    return only


async def until_idle(engine: Engine) -> None:
    """Nothing runs or waits, and every page is back."""
    async with asyncio.timeout(WITHIN_S):
        while not _is_idle(await engine.status()):  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.02)


def _prompt(phase: Phase) -> Any:
    return [9 + number % 90 for number in range(CHUNK * PREFILL_STEPS)] if phase == "prefill" else "The lamps"


@contextlib.asynccontextmanager
async def _blocker(engine: Engine) -> Any:
    """Holds the engine's one row; goes away itself at the end."""
    body = {"model": "m", "prompt": "The clock", "max_tokens": 8000, "ignore_eos": True, "stream": True}
    async with engine.session.post("/v1/completions", json=body) as answer:
        await answer.content.readline()
        yield
        answer.close()


async def _reached(engine: Engine, phase: Phase, before: set[str]) -> str:
    """The id of the new request, once it is there."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            status = await engine.status()
            for request_id in set(status["request_ids"]) - before:
                progress = await _records(engine, request_id, "progress")
                if phase == "queued" and status["waiting"] == 1:
                    return request_id
                if phase == "prefill" and status["running"] == 1 and status["kv_usage"] > 0:
                    return request_id
                if phase == "decode" and progress:
                    return request_id
            await asyncio.sleep(0.01)


async def _records(engine: Engine, request_id: str, kind: str) -> list[dict[str, Any]]:
    async with engine.session.get("/internal/usage", params={"request_id": request_id}) as answer:
        return [record for record in (await answer.json())["records"] if record["kind"] == kind]


def _is_idle(status: dict[str, Any]) -> bool:
    return (status["running"], status["waiting"], status["kv_usage"], status["request_ids"]) == (0, 0, 0, [])
