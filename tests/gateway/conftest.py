"""The gateway's own fixtures: a running gateway whose books are checked after every test, and a fake engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.harness import Gateway
from tests.patience import be_patient


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What tests do not mean must not decide them."""
    be_patient(monkeypatch)


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    async with FakeEngine() as fake:
        yield fake


@pytest.fixture
def gateway_changes() -> dict[str, Any]:
    """Settings that differ from the defaults; a test module or a parameter overrides this fixture."""
    return {}


@pytest.fixture
async def gateway(
    database_url: str, cache_url: str, tmp_path: Path, gateway_changes: dict[str, Any], engine: FakeEngine
) -> AsyncIterator[Gateway]:
    running = Gateway(database_url, cache_url, tmp_path, **gateway_changes)
    async with running:
        yield running
    await running.audit()
