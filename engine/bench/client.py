"""One client process of a serving benchmark: keeps its share of the requests in flight and notes their times.

Place: `engine.bench.serve` starts several, since one process reads some ten thousand chunks a second. Speaks
/v1/completions with streaming to any OpenAI-compatible server; knows nothing of who answers.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from engine.bench.stats import Outcome
from engine.bench.workload import Workload

_TIMEOUT_S = 3600.0
_USAGE = b'"usage":{'


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go."""

    base_url: str
    """Up to and with /v1."""
    model: str
    api_key: str | None = None
    extra_body: str = "{}"
    """JSON object merged into every request's body."""


def run_client(
    target: Target,
    workload: Workload,
    indices: Sequence[int],
    due_s: Sequence[float],
    concurrency: int | None,
) -> list[Outcome]:
    """Send the requests `indices` of the workload, each when due after now, at most `concurrency` at once."""
    return asyncio.run(_run(target, workload, indices, due_s, concurrency))


async def _run(
    target: Target,
    workload: Workload,
    indices: Sequence[int],
    due_s: Sequence[float],
    concurrency: int | None,
) -> list[Outcome]:
    bodies = {index: _body(target, workload, index) for index in indices}
    places = asyncio.Semaphore(concurrency or len(indices) or 1)
    async with open_session(target) as session:
        start = time.perf_counter()

        async def one(index: int, due: float) -> Outcome:
            await asyncio.sleep(max(0.0, start + due - time.perf_counter()))
            async with places:
                return await send(session, f"{target.base_url}/completions", index, bodies[index])

        return await asyncio.gather(*(one(index, due) for index, due in zip(indices, due_s, strict=True)))


def open_session(target: Target) -> aiohttp.ClientSession:
    """With as many connections as there are requests, and all the patience that a full server needs."""
    headers = {"content-type": "application/json"}
    if target.api_key is not None:
        headers["authorization"] = f"Bearer {target.api_key}"
    return aiohttp.ClientSession(
        headers=headers,
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
        read_bufsize=2**18,
    )


def _body(target: Target, workload: Workload, index: int) -> bytes:
    body = {
        "model": target.model,
        "prompt": workload.prompt(index),
        "max_tokens": workload.output_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return json.dumps(body | json.loads(target.extra_body)).encode()


async def _post(session: aiohttp.ClientSession, url: str, body: bytes) -> aiohttp.ClientResponse:
    """Once more if a kept connection was closed by the server just as it was used: nothing was begun."""
    try:
        return await session.post(url, data=body)
    except aiohttp.ServerDisconnectedError:
        return await session.post(url, data=body)


async def send(
    session: aiohttp.ClientSession,
    url: str,
    index: int,
    body: bytes,
    counts: Callable[[bytes], bool] | None = None,
) -> Outcome:
    """One streamed request. `counts` sees each chunk's line as it arrives and says whether it brought tokens; without it
    all do."""
    sent = time.perf_counter()
    times: list[float] = []
    usage: dict[str, Any] = {}
    try:
        async with await _post(session, url, body) as response:
            if response.status != 200:
                return Outcome(index, sent, error=f"{response.status}: {(await response.text())[:300]}")
            async for line in response.content:
                if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                    continue
                if line.startswith(b'data: {"error"'):
                    return Outcome(index, sent, error=line.decode()[:300])
                if _USAGE in line:
                    usage = json.loads(line[6:])["usage"]
                elif counts is None or counts(line):
                    times.append(time.perf_counter())
    except (TimeoutError, aiohttp.ClientError) as error:
        return Outcome(index, sent, error=f"{type(error).__name__}: {error}")
    if not times:
        return Outcome(index, sent, error="the answer had no chunk")
    return Outcome(
        index,
        sent,
        tuple(times),
        usage.get("prompt_tokens", 0),
        usage.get("completion_tokens", len(times)),
        cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
    )
