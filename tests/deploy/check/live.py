"""Steps that are tests with fixtures: a file `check_….py` here, which the ordinary suite does not collect."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.tidy.tree import ROOT

__all__ = ["nginx", "prometheus"]


def nginx() -> str:
    _run("check_nginx.py")
    return "nginx -t takes it; streams pass through it as they come, to two gateways, and to one when the other is gone"


def prometheus() -> str:
    _run("check_prometheus.py")
    return "a Prometheus scrapes a whole stack, answers every panel, and tells of a queue until it is over"


def _run(file: str) -> None:
    place = Path(__file__).with_name(file)
    command = [sys.executable, "-m", "pytest", "-q", "-o", "python_files=check_*.py", str(place)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
