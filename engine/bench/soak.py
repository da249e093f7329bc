"""`python -m engine bench soak`: mixed load for minutes, and what no engine may do: fail, answer wrongly, or grow.

Random lengths, callers that leave, several choices, log-probabilities, penalties and grammars, a number of requests at a
time. Memory of the server's processes and of the device is noted as it goes; over the last half neither may rise by
more than `GROWTH_MAX` a minute. Afterwards the server must be idle. Knows no server's internals but its metrics.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from engine.bench.asks import Ask, Sizes, draw_ask
from engine.bench.client import Target, open_session

GROWTH_MAX = 0.001
"""Of the mean, a minute."""
_SAMPLE_EVERY_S = 2.0
IDLE_WITHIN_S = 60.0
_FAULTS_SHOWN = 20
_BUSY = re.compile(rb"^vllm:num_requests_(?:running|waiting)(?:\{[^}]*\})? ([0-9.e+]+)", re.MULTILINE)


@dataclass(slots=True)
class Soak:
    """What was seen so far."""

    completed: int = 0
    left: int = 0
    tokens: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    memory: list[tuple[float, dict[str, int]]] = field(default_factory=list)
    """Seconds since the start, and bytes: of each process, of all of them ("host") and of the device ("device")."""


async def soak(
    target: Target,
    seconds: float,
    seed: int,
    at_once: int,
    sizes: Sizes,
    pid: int,
    *,
    idle_within_s: float = IDLE_WITHIN_S,
) -> Soak:
    """`pid`: of the server, whose processes are measured. Afterwards it must be idle within `idle_within_s`."""
    seen, end = Soak(), time.monotonic() + seconds
    async with open_session(target) as session:

        async def caller(number: int) -> None:
            source = random.Random(f"{seed} {number}")
            while time.monotonic() < end:
                ask = draw_ask(source, target.model, sizes)
                try:
                    await _send(session, f"{target.base_url}/completions", ask, seen)
                except (aiohttp.ClientError, TimeoutError) as error:
                    seen.faults[f"{type(error).__name__}: {error}"[:200]] += 1

        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(_watch(seen, pid))
            await asyncio.gather(*(caller(number) for number in range(at_once)))
            watcher.cancel()
        if not await _becomes_idle(session, target, idle_within_s):
            seen.faults[f"not idle {idle_within_s:.0f} s after the last request"] += 1
    return seen


async def _send(session: aiohttp.ClientSession, url: str, ask: Ask, seen: Soak) -> None:
    async with session.post(url, data=json.dumps(ask.body)) as response:
        if response.status != 200:
            seen.faults[f"{response.status}: {(await response.text())[:200]}"] += 1
            return
        if ask.leaves_after is not None:
            seen.left += 1
            for _ in range(ask.leaves_after):
                if not await response.content.readline():
                    break
            response.close()
            return
        if ask.body.get("stream"):
            usage, choices = _joined([line async for line in response.content], ask.body.get("n", 1))
        else:
            answer = json.loads(await response.read())
            usage, choices = answer["usage"], answer["choices"]
    seen.completed += 1
    seen.tokens += usage.get("completion_tokens", 0)
    seen.faults.update(ask.faults(usage, choices))


def _joined(lines: Sequence[bytes], count: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A stream's usage and its choices, put together from their pieces. Without its end there is neither."""
    usage: dict[str, Any] = {}
    choices: list[dict[str, Any]] = [{"finish_reason": None, "text": ""} for _ in range(count)]
    events = [line[6:] for line in lines if line.startswith(b"data: ")]
    if not events or events[-1].strip() != b"[DONE]":
        return {}, []
    for event in map(json.loads, events[:-1]):
        usage = event.get("usage") or usage
        for piece in event["choices"]:
            choice = choices[piece["index"]]
            choice["text"] += piece["text"]
            choice["finish_reason"] = piece["finish_reason"] or choice["finish_reason"]
            for value in (piece.get("logprobs") or {}).get("token_logprobs", []):
                choice.setdefault("logprobs", {"token_logprobs": []})["token_logprobs"].append(value)
    return usage, choices


async def _becomes_idle(session: aiohttp.ClientSession, target: Target, within_s: float) -> bool:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        async with session.get(target.base_url.removesuffix("/v1") + "/metrics") as response:
            busy = _BUSY.findall(await response.read())
        if busy and not any(map(float, busy)):
            return True
        await asyncio.sleep(0.2)
    return False


async def _watch(seen: Soak, pid: int) -> None:
    began = time.monotonic()
    while True:
        sample = dict(_resident(pid))
        sample["host"] = sum(sample.values())
        if (device := await asyncio.to_thread(_device_bytes)) is not None:
            sample["device"] = device
        seen.memory.append((time.monotonic() - began, sample))
        await asyncio.sleep(_SAMPLE_EVERY_S)


def _resident(pid: int) -> Iterator[tuple[str, int]]:
    """Name and bytes of a process and of all below it, but for those that have just ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                yield f"{_command(process.cmdline())} {process.pid}", process.memory_info().rss


def _command(words: Sequence[str]) -> str:
    """The engine's command that a process runs."""
    return next(iter(words[words.index("engine") + 1 :]), "") if "engine" in words else Path(*words[:1]).name


def _device_bytes() -> int | None:
    """Memory taken on all devices of this machine; None without any."""
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return (
        sum(map(int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()))
        << 20
    )


def growth(memory: Sequence[tuple[float, dict[str, int]]], name: str) -> float:
    """Of the mean, a minute: the slope of the straight line that fits the last half best."""
    half = [(at / 60, sample.get(name, 0)) for at, sample in memory[len(memory) // 2 :]]
    mean_at = sum(at for at, _ in half) / len(half)
    mean = sum(size for _, size in half) / len(half)
    spread = sum((at - mean_at) ** 2 for at, _ in half)
    return sum((at - mean_at) * (size - mean) for at, size in half) / max(spread, 1e-9) / mean


def main(argv: Sequence[str]) -> int:
    """`argv` without the leading "bench soak". Returns 1 if anything was wrong."""
    arguments = _parse(argv)
    target = Target(arguments.base_url, arguments.model, arguments.api_key)
    sizes = Sizes(arguments.longest_prompt, arguments.longest_answer, arguments.vocab)
    seen = asyncio.run(
        soak(target, 60 * arguments.minutes, arguments.seed, arguments.max_concurrency, sizes, arguments.pid)
    )
    faults = dict(seen.faults.most_common(_FAULTS_SHOWN))
    sys.stdout.write(
        f"seed {arguments.seed}: {seen.completed} answers of {seen.tokens} tokens, {seen.left} callers left, "
        f"{seen.faults.total()} faults\n"
    )
    for name in seen.memory[-1][1]:
        amounts = [sample.get(name, 0) >> 20 for _, sample in seen.memory]
        rate = growth(seen.memory, name)
        sys.stdout.write(
            f"{name}: {amounts[0]} MiB, {amounts[len(amounts) // 2]}, {amounts[-1]}; {rate:+.3%} a minute\n"
        )
        if rate > GROWTH_MAX and name in ("host", "device"):
            faults[f"{name} memory grows by {rate:.2%} a minute"] = 1
    sys.stdout.writelines(f"FAULT {number} times: {fault}\n" for fault, number in faults.items())
    return 1 if faults else 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m engine bench soak", description=__doc__)
    add = parser.add_argument
    add("--base-url", default="http://127.0.0.1:8000/v1")
    add("--model", required=True, help="served model name")
    add("--api-key")
    add("--pid", type=int, required=True, help="of `engine serve` on this machine")
    add("--minutes", type=float, default=8.0)
    add("--seed", type=int, default=0)
    add("--max-concurrency", type=int, default=64)
    add("--longest-prompt", type=int, default=Sizes().longest_prompt, help="tokens")
    add("--longest-answer", type=int, default=Sizes().longest_answer, help="tokens")
    add("--vocab", type=int, default=Sizes().vocab, help="token ids of prompts are below it")
    return parser.parse_args(argv)
