"""Fixtures of the journeys. They run by `make browser`, not with the other tests: they need a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.console.browser.stage import Stage, open_stage
from tests.patience import be_patient


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


@pytest.fixture
async def stage(database_url: str, cache_url: str, tmp_path: Path) -> AsyncIterator[Stage]:
    async with open_stage(database_url, cache_url, tmp_path) as found:
        yield found
