"""`tollway admin …` against a running gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from gateway.cli import app
from tests.harness import Gateway


@pytest.fixture
def admin(gateway: Gateway) -> Callable[..., Awaitable[Any]]:
    """The JSON that a command prints, or with `status` what it says on stderr."""

    async def run(*words: str, status: int = 0) -> Any:
        where = ["--url", gateway.url, "--admin-key", gateway.admin_key]
        shown = [] if status else ["--json"]
        result = await asyncio.to_thread(CliRunner().invoke, app, ["admin", *words, *where, *shown])
        assert result.exit_code == status, (words, result.output, result.exception)
        return result.stderr if status else json.loads(result.stdout)

    return run
