"""What a rolling upgrade costs those who stream through it: `make roll`.

    python -m tests.bench.roll [--replicas 3] [--streams 20] [--rolls 3] [--seconds 20]

`tollway up` with real engines on a tiny model. Undisturbed load and rolls alternate; the time to the first token of both is
of one run, on one machine, where the engines that start take their CPU from the others: that is in the figure. Fails
unless every stream has all its tokens and one settled event of as many.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.conftest import Stack
from tests.e2e.roll.run import UNLIMITED, Rolls, Stream, wrong
from tests.models import write_tiny_gemma3

PERCENTS = (50, 95, 99)


async def measure(options: argparse.Namespace, stack: Stack) -> int:
    rolls = Rolls(stack, options.streams)
    await rolls.grow(options.replicas)
    await rolls.calm(5.0)  # warm
    calm: list[Stream] = []
    rolled: list[Stream] = []
    for number in range(options.rolls):
        calm += (undisturbed := await rolls.calm(options.seconds))
        began = time.monotonic()
        rolled += (disturbed := await rolls.roll())
        print(
            f"roll {number + 1}: {options.replicas} replicas in {time.monotonic() - began:.0f} s;"
            f" {len(disturbed)} streams, {_failed(disturbed)} failed, {_cut(disturbed)} truncated;"
            f" TTFT {_shown(disturbed)} (undisturbed, {len(undisturbed)} streams: {_shown(undisturbed)})",
            flush=True,
        )
    unsettled = await rolls.unsettled()
    print(f"all rolls: {len(rolled)} streams, {_failed(rolled)} failed, {_cut(rolled)} truncated")
    print(f"TTFT rolling {_shown(rolled)}; undisturbed {_shown(calm)}")
    print(f"settled: {len(rolls.streams) - len(unsettled)} of {len(rolls.streams)} streams, to the token")
    for line in [*wrong(rolls.streams), *unsettled][:20]:
        print(line)
    return 1 if wrong(rolls.streams) or unsettled else 0


def _failed(streams: Sequence[Stream]) -> int:
    return sum(one.status != 200 or bool(one.problem) for one in streams)


def _cut(streams: Sequence[Stream]) -> int:
    return sum(one.status == 200 and not one.problem and not one.is_right for one in streams)


def _shown(streams: Sequence[Stream]) -> str:
    times = sorted(one.ttft_s for one in streams if one.is_right)
    if len(times) < 2:
        return "unknown"
    cuts = statistics.quantiles(times, n=100)
    return ", ".join(f"p{percent} {cuts[percent - 1] * 1e3:.0f} ms" for percent in PERCENTS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--rolls", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="of undisturbed load before each roll")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tollway-roll-", ignore_cleanup_errors=True) as directory:
        home = Path(directory).resolve()
        home.chmod(0o711)  # Postgres, started by root, runs as another user
        write_tiny_gemma3(home / "tiny")
        stack = Stack(home / "var", home / "tiny", UNLIMITED)
        try:
            stack.start()
            return asyncio.run(measure(options, stack))
        finally:
            if stack.process is not None:
                stack.stop()
            stack.close()


if __name__ == "__main__":
    sys.exit(main())
