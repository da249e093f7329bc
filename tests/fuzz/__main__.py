"""The long run: prints what was answered, memory as it went, and every fault; status 1 if there was one."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path

import psutil

from tests.engine.test_core_process import serving
from tests.fuzz.run import fuzz
from tests.models import write_tiny_llama

PARTS = 10
"""Memory is looked at after each; from the third on, when caches are full and grammars were compiled, it must stand."""
WARM_PARTS = 3
GROWTH_MAX = 0.05


def _rss(root: psutil.Process) -> dict[str, int]:
    """Command → bytes, of the engine's processes."""
    parts = [root, *root.children(recursive=True)]
    return {" ".join(part.cmdline()[2:4]) + f"#{part.pid}": part.memory_info().rss for part in parts}


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        model = write_tiny_llama(Path(directory) / "model")
        async with serving(model, "--journal-dir", f"{directory}/journal") as engine:
            root = psutil.Process(engine.process.pid)
            memory, reports = [], []
            for part in range(PARTS):
                reports.append(
                    await fuzz(engine.session, f"{arguments.seed}.{part}", arguments.requests // PARTS)
                )
                memory.append(_rss(root))
    faults = [fault for report in reports for fault in report.faults]
    plain = set().union(*(report.plain for report in reports))
    print(f"{arguments.requests} requests:", dict(sum((report.statuses for report in reports), Counter())))
    print(f"callers that left: {sum(report.left for report in reports)}; plain answers: {plain}")
    if len(plain) != 1:
        faults.append("the plain request was answered in several ways")
    if memory[0].keys() - memory[-1].keys():
        faults.append("a process ended")
    for name, size in memory[-1].items():
        sizes = [each.get(name, 0) for each in memory]
        print(f"{name}: " + " ".join(f"{each / 2**20:.0f}" for each in sizes), "MiB")
        if size > sizes[WARM_PARTS - 1] * (1 + GROWTH_MAX) > 0:
            faults.append(f"{name} grows")
    for fault in faults:
        print("FAULT", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
