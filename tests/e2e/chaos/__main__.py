"""`make chaos`: the long exactly-once run, its hit table, and with `--mutants` the proof that it can turn red."""

import argparse
import os
import subprocess
import sys

from tests.e2e import mutations_exactly_once


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each failpoint is hit at least")
    parser.add_argument("--seconds", type=int, default=600, help="random kills go on for so long")
    parser.add_argument("--seed", default="", help="of an earlier run, to draw the same again")
    parser.add_argument(
        "--mutants", action="store_true", help="only show that each mutant turns the test red"
    )
    options = parser.parse_args()
    if options.mutants:
        return mutations_exactly_once.main()
    environ = os.environ | {
        "TOLLWAY_TEST_CHAOS_ROUNDS": str(options.rounds),
        "TOLLWAY_TEST_CHAOS_SECONDS": str(options.seconds),
        "TOLLWAY_TEST_CHAOS_SEED": options.seed,
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-s", "tests/e2e/test_exactly_once.py"]
    return subprocess.run(command, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
