"""What a local replica may take of its machine: open files, core dumps, and room for its log.

Place: under the local launcher. Works on a process that has started a moment ago, before it has children: a limit is
inherited. Knows nothing of engines.
"""

import contextlib
import os
import resource
import shutil
from pathlib import Path

__all__ = ["NOFILE", "cut_log", "limit_process"]

NOFILE = 65_536
"""Connections of many callers, as far as the system lets it."""


def limit_process(pid: int) -> None:
    """No core dump, which would write prompts and keys to a disk; as many files as `NOFILE`. One that has ended
    already has no limits."""
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        soft = NOFILE if hard == resource.RLIM_INFINITY else min(NOFILE, hard)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def cut_log(log: Path, bytes_max: int) -> bool:
    """Put what is too long beside, and go on with an empty file; whether that was so. Its writer appends, and keeps the
    file open: what it writes between the copy and the cut is lost."""
    try:
        if log.stat().st_size <= bytes_max:
            return False
    except FileNotFoundError:
        return False
    older = log.with_suffix(".log.1")
    shutil.copyfile(log, older)
    older.chmod(0o600)
    os.truncate(log, 0)
    return True
