"""The long run: prints what was answered, memory before and after, and every fault; status 1 if there was one."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import psutil

from tests.engine.test_core_process import serving
from tests.fuzz.run import fuzz
from tests.models import write_tiny_llama

WARM_SHARE = 0.2
"""Of the requests come before memory is looked at: caches are full then."""
GROWTH_MAX = 0.1


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
            warm = int(arguments.requests * WARM_SHARE)
            first = await fuzz(engine.session, arguments.seed, warm)
            before = _rss(root)
            second = await fuzz(engine.session, arguments.seed + 1, arguments.requests - warm)
            after = _rss(root)
    faults = first.faults + second.faults
    print(f"{arguments.requests} requests, seed {arguments.seed}:", dict(first.statuses + second.statuses))
    print(f"callers that left: {first.left + second.left}; plain answers: {first.plain | second.plain}")
    grown = []
    for name, size in after.items():
        was = before.get(name, 0)
        print(f"{name}: {was / 2**20:.0f} MiB after the first fifth, {size / 2**20:.0f} MiB in the end")
        if was and size > was * (1 + GROWTH_MAX):
            grown.append(name)
    for fault in faults:
        print("FAULT", fault)
    if before.keys() != after.keys():
        print("FAULT a process is another one now")
    return (
        1 if faults or grown or before.keys() != after.keys() or len(first.plain | second.plain) != 1 else 0
    )


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
