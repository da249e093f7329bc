"""`make deploy-check`: the deployment files against the programs that will read them. Needs no cluster.

Each step names the programs that it needs. One that is missing fails the run and says how to install it; nothing is
left out in silence. `ARGS="rules nginx"` runs some steps only.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass

from tests.deploy.check import live, manifests, rules

__all__ = ["main"]

PACKAGES = {
    "promtool": "apt-get install prometheus",
    "prometheus": "apt-get install prometheus",
    "amtool": "apt-get install prometheus-alertmanager",
    "nginx": "apt-get install nginx-light",
    "kubectl": "see kubernetes.io/docs/tasks/tools, version 1.30 or newer",
}


@dataclass(frozen=True)
class Step:
    name: str
    needs: tuple[str, ...]
    run: Callable[[], str]
    """Returns what was seen; raises AssertionError or CalledProcessError."""


STEPS = (
    Step("rules", ("promtool", "amtool"), rules.run),
    Step("manifests", ("kubectl",), manifests.run),
    Step("nginx", ("nginx",), live.nginx),
    Step("prometheus", ("prometheus",), live.prometheus),
)


def main(wanted: list[str]) -> int:
    unknown = set(wanted) - {step.name for step in STEPS}
    if unknown:
        print(
            f"no such step: {', '.join(sorted(unknown))}; there are {', '.join(step.name for step in STEPS)}"
        )
        return 2
    missing = 0
    for step in STEPS:
        if wanted and step.name not in wanted:
            continue
        absent = [program for program in step.needs if shutil.which(program) is None]
        if absent:
            missing += 1
            hints = "; ".join(f"{program}: {PACKAGES[program]}" for program in absent)
            print(f"{step.name}: NOT CHECKED, this machine lacks {hints}")
            continue
        print(f"{step.name}: {step.run()}", flush=True)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
