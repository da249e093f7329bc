"""A local launcher whose `python -m engine` is a small stand-in, a real process with a real HTTP server."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from gateway.pool.local import LocalLauncher
from gateway.pool.probe import Probe
from gateway.pool.spec import EngineSpec
from tests.patience import LONG_S

STUB = Path(__file__).parent / "stub"
KEY = "the-key"


@pytest.fixture(autouse=True)
def _long_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a step takes here."""
    monkeypatch.setattr("gateway.pool.repository.LEASE_S", 3600.0)


@pytest.fixture
def launcher(tmp_path: Path) -> LocalLauncher:
    return _launcher(tmp_path)


@pytest.fixture
def open_launcher(tmp_path: Path) -> LocalLauncher:
    """Of the same directory; its engines ask for no key."""
    return _launcher(tmp_path, open_engines=True)


def with_tools(tmp_path: Path, tools: Path) -> LocalLauncher:
    """Of the same directory; it finds its tools there first."""
    return _launcher(tmp_path, tools=f"{tools}:")


def _launcher(tmp_path: Path, open_engines: bool = False, tools: str = "") -> LocalLauncher:
    # PYTHONSAFEPATH keeps the working directory, and with it the real engine, off the path.
    environ = {
        "PATH": tools + os.environ["PATH"],
        "PYTHONPATH": str(STUB),
        "PYTHONSAFEPATH": "1",
        "DATABASE_URL": "no",
        "UP_PART": "pool",
    }
    return LocalLauncher(tmp_path / "run", key=KEY, environ=environ, open_engines=open_engines)


@pytest.fixture
async def probe() -> AsyncIterator[Probe]:
    probe = Probe(KEY, timeout_s=LONG_S)
    yield probe
    await probe.close()


def stub_spec(**changes: object) -> EngineSpec:
    return EngineSpec.model_validate(
        {"model": "stub", "served_names": ("stub",), "max_replicas": 4} | changes
    )


async def until(reached: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a real process to get there."""
    for _ in range(2400):
        if await reached():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("never reached")
