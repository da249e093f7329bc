"""A scripted engine on a real port, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gateway.settings import UpstreamSettings
from gateway.upstream.client import UpstreamClient
from tests.fakes.engine import FakeEngine
from tests.patience import LONG_S


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    async with FakeEngine() as fake:
        yield fake


@pytest.fixture
async def client() -> AsyncIterator[UpstreamClient]:
    made = UpstreamClient(UpstreamSettings(connect_timeout_s=LONG_S))
    await made.start()
    yield made
    await made.close()
