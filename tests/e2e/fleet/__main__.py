"""`make fleet`: replicas are killed at random for two minutes, and no caller may notice."""

import argparse
import os
import subprocess
import sys


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fleet", description=__doc__)
    parser.add_argument("--seconds", type=int, default=120, help="how long the killing goes on")
    parser.add_argument("--seed", default="", help="of an earlier run, to draw the same again")
    options = parser.parse_args()
    environ = os.environ | {
        "TOLLWAY_TEST_FLEET_SECONDS": str(options.seconds),
        "TOLLWAY_TEST_FLEET_SEED": options.seed,
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-s", "tests/e2e/test_replica_death.py"]
    return subprocess.run(command, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
