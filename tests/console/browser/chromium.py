"""Which Chromium the tests drive, and how it is started.

`CHROMIUM` in the environment; else the one that `make browser` unpacks from an npm package, with its libraries; else the
system's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Browser", "find_browser"]

HERE = Path(__file__).parent
UNPACKED = HERE / ".chromium"
SYSTEM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass(frozen=True, slots=True)
class Browser:
    path: Path
    environment: dict[str, str] = field(default_factory=dict)


def find_browser() -> Browser:
    """Raises FileNotFoundError that says what to do."""
    chosen = os.environ.get("CHROMIUM")
    if chosen:
        return Browser(Path(chosen))
    if (UNPACKED / "done").exists():
        fonts = {"FONTCONFIG_PATH": str(UNPACKED)} if not Path("/etc/fonts").exists() else {}
        return Browser(UNPACKED / "chromium", {"LD_LIBRARY_PATH": str(UNPACKED / "lib"), **fonts})
    if SYSTEM.exists():
        return Browser(SYSTEM)
    raise FileNotFoundError("no Chromium: run `make browser`, or name one in CHROMIUM")
