"""Failpoints: named places on the money's path where a test may kill, stall or break this process.

Off, which is always outside tests, a place costs one comparison. It is armed only if the environment names both the
test mode and a directory, and then obeys the file of its own name there, once: `kill` (SIGKILL, as a lost machine
would), `delay SECONDS` (the whole process stalls) or `raise`. A file that was obeyed lies under `hit` afterwards.
What the places mean is not known here.
"""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

__all__ = ["DIRECTORY_VARIABLE", "HOMES", "MODE_VARIABLE", "FailpointReached", "Home", "Point", "failpoint"]

Point = Literal[
    "reserve.committed",
    "stream.sent",
    "answer.last_byte",
    "settle.before_commit",
    "settle.committed",
    "spool.replaying",
    "spool.applied",
    "reconcile.before_settle",
    "rollup.before_commit",
    "slo.refusals_counted",
    "episode.before_commit",
    "delivery.sent",
    "batch.stored",
    "batch.files_written",
]

Home = Literal["gateway", "replay", "worker", "batches", "episodes"]
"""Whose process passes a place, and when. A gateway: with requests of any kind, or when it applies its spool after an
outage of the database. The worker: with requests of any kind. Either, and never by such load alone: where batches are
worked on, and where an episode of an alert begins or ends."""

HOMES: Final[Mapping[Point, Home]] = {
    "reserve.committed": "gateway",
    "stream.sent": "gateway",
    "answer.last_byte": "gateway",
    "settle.before_commit": "gateway",
    "settle.committed": "gateway",
    "spool.replaying": "replay",
    "spool.applied": "replay",
    "reconcile.before_settle": "worker",
    "rollup.before_commit": "worker",
    "slo.refusals_counted": "worker",
    "delivery.sent": "worker",
    "episode.before_commit": "episodes",
    "batch.stored": "batches",
    "batch.files_written": "batches",
}

DIRECTORY_VARIABLE = "TOLLWAY_TEST_FAILPOINTS"
MODE_VARIABLE = "TOLLWAY_TEST_MODE"


class FailpointReached(Exception):
    """A failpoint that was told to raise."""


def failpoint(name: Point) -> None:
    if _ARMED is not None:
        _obey(_ARMED, name)


def _armed(environ: Mapping[str, str]) -> Path | None:
    """The directory variable alone arms nothing: a stray one must not make a service killable by a file."""
    directory = environ.get(DIRECTORY_VARIABLE)
    return Path(directory) if directory and environ.get(MODE_VARIABLE) == "failpoints" else None


def _obey(directory: Path, name: str) -> None:
    order = directory / name
    try:
        action, _, seconds = order.read_text(encoding="ascii").strip().partition(" ")
        (directory / "hit").mkdir(exist_ok=True)
        order.rename(directory / "hit" / f"{name}@{order.stat().st_ino}")
    except FileNotFoundError:  # no order, or another thread took it
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "delay":
        time.sleep(float(seconds))
    if action == "raise":
        raise FailpointReached(name)


_ARMED: Final = _armed(os.environ)
