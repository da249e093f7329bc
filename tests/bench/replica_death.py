"""What the death of a replica costs those who were not on it: their p95 with and without kills, in one run.

    python -m tests.bench.replica_death [--seconds 30] [--rounds 3]

Three real engines with a tiny model behind one gateway, six callers. Rounds alternate between an undisturbed load and
one under which engines are killed (`kill -9`) and started again, one at a time. "The others" are the requests that one
attempt answered. A restarted engine takes its CPU from the others on a small machine: that is in the figure.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.chaos.audit import until_quiet
from tests.e2e.fleet.load import Answer, p95_s
from tests.e2e.fleet.run import Fleet, wrong
from tests.models import write_tiny_gemma3


async def measure(options: argparse.Namespace, fleet: Fleet) -> None:
    await fleet.start()
    ratios, hit = [], 0
    for number in range(options.rounds):
        calm = await fleet.undisturbed(options.seconds)
        kills = len(fleet.kills)
        disturbed = await fleet.killing(kills + 1, options.seconds)
        assert not wrong([*calm, *disturbed]), "a wrong or failed answer"
        await until_quiet(fleet.cluster)
        others = await untouched(fleet, disturbed)
        hit += len(disturbed) - len(others)
        ratios.append(p95_s(others) / p95_s(calm))
        print(
            f"round {number}: {len(fleet.kills) - kills} kills; p95 of {len(calm)} undisturbed {p95_s(calm):.3f} s, of"
            f" {len(others)} others {p95_s(others):.3f} s, of all {len(disturbed)} {p95_s(disturbed):.3f} s;"
            f" ratio {ratios[-1]:.2f}"
        )
    print(
        f"others' p95 / undisturbed p95: median {statistics.median(ratios):.2f}"
        f" ({min(ratios):.2f} to {max(ratios):.2f} over {len(ratios)} rounds); {hit} requests met a death, none failed"
    )


async def untouched(fleet: Fleet, answers: Sequence[Answer]) -> list[Answer]:
    """Those that one attempt answered."""
    rows = await fleet.cluster.sql("SELECT request_id FROM attempt GROUP BY 1 HAVING count(*) > 1")
    touched = {row["request_id"] for row in rows}
    return [answer for answer in answers if answer.record.request_id not in touched]


async def run(options: argparse.Namespace, home: Path, model: Path) -> None:
    fleet = Fleet(home, model, options.seed)
    try:
        await measure(options, fleet)
    finally:
        await fleet.cluster.destroy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="tollway-fleet-", ignore_cleanup_errors=True) as directory:
        home = Path(directory).resolve()
        home.chmod(0o711)
        write_tiny_gemma3(home / "tiny")
        asyncio.run(run(options, home, home / "tiny"))


if __name__ == "__main__":
    main()
