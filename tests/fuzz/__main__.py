"""The long run: prints what was answered, memory as it went, and every fault; status 1 if there was one."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil
from schemathesis import GenerationMode

from tests.fuzz.described import ask_described
from tests.fuzz.engine import Engine, fuzzed_engine
from tests.fuzz.run import Report, fuzz

PARTS = 10
"""Memory is looked at after each; from the third on, when caches are full and grammars were compiled, it must stand."""
WARM_PARTS = 3
GROWTH_MAX = 0.05
DESCRIBED_SHARE = 0.3
"""Of the requests: those that schemathesis makes."""


def _rss(root: psutil.Process) -> dict[str, int]:
    """Command → bytes, of the engine's processes."""
    parts = [root, *root.children(recursive=True)]
    return {" ".join(part.cmdline()[2:4]) + f"#{part.pid}": part.memory_info().rss for part in parts}


async def _part(engine: Engine, seed: int, part: int, count: int) -> list[Report]:
    """Both kinds of requests, at the same time."""
    described = int(count * DESCRIBED_SHARE)

    def ask() -> list[Report]:
        modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
        return [
            ask_described(engine.url, seed * PARTS + part, described // len(modes), mode=mode)
            for mode in modes
        ]

    own, theirs = await asyncio.gather(
        fuzz(engine.session, f"{seed}.{part}", count - described), asyncio.to_thread(ask)
    )
    return [own, *theirs]


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        async with fuzzed_engine(Path(directory)) as engine:
            root = psutil.Process(engine.process.pid)
            before, began = await engine.status(), time.monotonic()
            memory: list[dict[str, int]] = []
            reports: list[Report] = []
            for part in range(PARTS):
                news = await _part(engine, arguments.seed, part, arguments.requests // PARTS)
                reports += news
                memory.append(_rss(root))
                took, total = time.monotonic() - began, _total(reports)
                print(f"{took:.0f} s: {total} requests, {sum(memory[-1].values()) >> 20} MiB", flush=True)
                for report in news:
                    for fault in report.faults:
                        print("FAULT", fault, flush=True)
            after = await engine.status()
    faults = [fault for report in reports for fault in report.faults] + _growth(memory)
    plain = set().union(*(report.plain for report in reports))
    _print_counts(reports)
    print(f"callers that left: {sum(report.left for report in reports)}; plain answers: {plain}")
    if len(plain) != 1:
        faults.append("the plain request was answered in several ways")
    if (before["epoch"], 0, 0) != (after["epoch"], after["running"], after["waiting"]):
        faults.append(f"the engine was {before} and is {after}")
    print("\n".join(faults) or "no faults")
    return 1 if faults else 0


def _total(reports: list[Report]) -> int:
    return sum(report.statuses.total() + report.left for report in reports)


def _print_counts(reports: list[Report]) -> None:
    statuses: Counter[tuple[str, int]] = sum((report.statuses for report in reports), Counter())
    for path in sorted({path for path, _ in statuses}):
        print(path, {status: number for (at, status), number in sorted(statuses.items()) if at == path})
    print(dict(sum((report.seen for report in reports), Counter())))


def _growth(memory: list[dict[str, int]]) -> list[str]:
    faults = ["a process ended"] if memory[0].keys() - memory[-1].keys() else []
    for name, size in memory[-1].items():
        sizes = [each.get(name, 0) for each in memory]
        print(f"{name}: " + " ".join(f"{each / 2**20:.0f}" for each in sizes), "MiB")
        if size > sizes[WARM_PARTS - 1] * (1 + GROWTH_MAX) > 0:
            faults.append(f"{name} grows")
    return faults


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
