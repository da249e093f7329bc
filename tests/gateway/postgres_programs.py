"""The programs of PostgreSQL (pg_dump, pg_restore, psql), as the embedded server brings them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from sqlalchemy.engine import make_url

from gateway.local.postgres import EmbeddedPostgres


def environment_of(server_directory: Path) -> dict[str, str]:
    """In which they are found."""
    binaries = EmbeddedPostgres(server_directory).binaries.directory
    return {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"}


def plain(url: str) -> str:
    """As they read it."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def run(environment: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
