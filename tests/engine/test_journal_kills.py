"""kill -9 of an engine's processes under load, at random tokens: what callers saw is journalled, once and whole.

API processes, the core, and the whole engine with its supervisor, which the next start finds. One round in CI;
`make journal` goes on for forty.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from engine.server import segments
from engine.server.journal import PROGRESS_TOKENS, Record
from engine.server.journal_reader import read_page
from tests.engine.test_process import CHAT, KEY, Engine, running_engine
from tests.seeds import seed_of_test

ROUNDS = int(os.environ.get("JOURNAL_ROUNDS", "1"))
CALLERS = 10
WITHIN_S = 120.0


@dataclass
class Seen:
    """What a caller saw of its answer."""

    stream: bool
    tokens: int = 0
    told: int | None = None
    """By a usage, beside the end or beside an error."""


@dataclass
class Load:
    """Callers without a pause. Every request has an id of its own, whatever engine it met."""

    rng: random.Random
    seen: dict[str, Seen] = field(default_factory=dict)
    num_tokens: int = 0
    url: str = ""

    async def call(self) -> None:
        async with aiohttp.ClientSession(headers=KEY) as session:
            while True:
                name = f"gw-{len(self.seen)}"
                seen = self.seen[name] = Seen(stream=self.rng.random() < 0.7)
                with suppress(aiohttp.ClientError):
                    await self._ask(session, name, seen)
                await asyncio.sleep(0.01)  # not a storm of refusals while nobody is there

    async def _ask(self, session: aiohttp.ClientSession, name: str, seen: Seen) -> None:
        body: dict[str, Any] = {**CHAT, "stream": seen.stream, "max_tokens": self.rng.randint(1, 300)}
        if seen.stream:
            body["stream_options"] = {"include_usage": True}
        headers = {"x-gateway-request-id": name}
        async with session.post(f"{self.url}/v1/chat/completions", json=body, headers=headers) as answer:
            if not seen.stream:
                usage = (await answer.json()).get("usage")
                seen.told = usage and usage["completion_tokens"]
                return
            async for line in answer.content:
                self._read(line, seen)

    def _read(self, line: bytes, seen: Seen) -> None:
        if not line.startswith(b"data: {"):
            return
        event = json.loads(line.removeprefix(b"data: "))
        if event.get("usage"):
            seen.told = event["usage"]["completion_tokens"]
        if any(choice["delta"].get("content") for choice in event.get("choices", [])):
            seen.tokens += 1
            self.num_tokens += 1


async def test_no_kill_loses_or_tears_a_record(tmp_path: Path) -> None:
    seed = seed_of_test()
    load = Load(random.Random(seed))
    killed: Counter[str] = Counter()
    for _ in range(ROUNDS):
        killed += await _round(load, tmp_path)
    async with running_engine(tmp_path) as engine:  # closes what the last one left
        await engine.until_ready()
    records = read_page(tmp_path / "journal", "", 10**6).records
    print(f"{dict(killed)}; {len(load.seen)} requests, {len(records)} records")
    by_id: dict[str | None, list[Record]] = {}
    for record in records:
        by_id.setdefault(record.request_id, []).append(record)
    wrong = [
        problem for name, seen in load.seen.items() for problem in _wrong(name, seen, by_id.get(name, []))
    ]
    assert wrong == []
    assert len(by_id) >= CALLERS
    assert list(_torn(tmp_path / "journal")) == []


async def _round(load: Load, tmp_path: Path) -> Counter[str]:
    """Few kills: an engine that loses many processes in a minute gives up."""
    killed: Counter[str] = Counter()
    async with running_engine(tmp_path, "--api-workers", "2", FAKE_CORE_STEP_S="0.002") as engine:
        load.url = str(engine.session._base_url).rstrip("/")
        await engine.until_ready()
        callers = [asyncio.create_task(load.call()) for _ in range(CALLERS)]
        kills = ["api", "core", load.rng.choice(["api", "core"])]
        load.rng.shuffle(kills)
        for which in (*kills, "engine"):
            wanted = load.num_tokens + load.rng.randint(1, 1500)
            async with asyncio.timeout(WITHIN_S):
                while load.num_tokens < wanted:
                    assert not any(caller.done() for caller in callers)
                    await asyncio.sleep(0.001)
            killed[which] += 1
            await _kill(engine, which)
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
    return killed


async def _kill(engine: Engine, which: str) -> None:
    if which == "engine":
        root = psutil.Process(engine.process.pid)
        for process in [root, *root.children(recursive=True)]:
            process.kill()
        await engine.process.wait()
        return
    status = await _status(engine)
    os.kill(status["pid" if which == "api" else "core_pid"], signal.SIGKILL)


async def _status(engine: Engine) -> dict[str, Any]:
    """Of an engine whose connections may break at any time."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            with suppress(aiohttp.ClientError):
                found = await engine.status()
                if found["core_pid"] is not None:
                    return found
            await asyncio.sleep(0.01)


def _wrong(name: str, seen: Seen, mine: list[Record]) -> Iterator[str]:
    """What the records of a request must not be."""
    kinds = [record.kind for record in mine]
    if not mine:
        if seen.tokens or seen.told is not None:
            yield f"{name}: {seen} has no record"
        return
    if kinds[0] != "start" or kinds.count("start") != 1 or kinds[-1] != "end" or kinds.count("end") != 1:
        yield f"{name}: {kinds}"
        return
    reported = [record.completion_tokens or 0 for record in mine]
    if reported != sorted(reported):
        yield f"{name}: {reported}"
    if seen.told is not None and reported[-1] != seen.told:
        yield f"{name}: {reported[-1]} journalled, {seen.told} told"
    if reported[-1] + PROGRESS_TOKENS <= seen.tokens:
        yield f"{name}: {reported[-1]} journalled, {seen.tokens} seen"


def _torn(directory: Path) -> Iterator[str]:
    """Segments with bytes that are no frame, or without an end."""
    for segment in segments.list_segments(directory):
        payloads = [payload for payload, _ in segments.read_frames(segment.path, 0)]
        size = len(segments.MAGIC) + sum(len(segments.frame(payload)) for payload in payloads)
        if size != segment.path.stat().st_size:
            yield f"{segment.path.name}: {segment.path.stat().st_size - size} bytes are no record"
        if payloads[-1] != segments.CLOSED:
            yield f"{segment.path.name} is open"
