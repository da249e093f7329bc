"""The life of `tollway up`: once at a time, the same after a restart, whole after a crash, gone after Ctrl-C."""

import signal
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from engine.server.acknowledged import is_acknowledged
from engine.server.journal_reader import read_page
from gateway.local.up import SERVED_MODEL
from tests.e2e.conftest import Stack, caller, until


@pytest.fixture
def idle_stack(home: Path, tiny_model: Path) -> Iterator[Stack]:
    """Not started yet."""
    stack = Stack(home, tiny_model)
    yield stack
    if stack.process is not None:
        stack.stop()
    for mark in stack.processes():
        mark.send(signal.SIGKILL)
    stack.close()


async def _works(stack: Stack) -> bool:
    async with caller(stack) as client:
        return [model.id async for model in client.models.list()] == [SERVED_MODEL]


async def test_up_crash_up_restart_and_down(idle_stack: Stack) -> None:
    stack = idle_stack
    shown = stack.start("--no-demo")
    assert "OPENAI_API_KEY" not in stack.env
    assert stack.env["OPENAI_ADMIN_KEY"].startswith("tw-")
    assert "key, shown once" not in shown

    second = stack.launch()
    assert "already running as process" in second.communicate(timeout=240)[0]
    assert second.returncode == 1

    before = await stack.engine_status()
    assert stack.stop(signal.SIGKILL) == -signal.SIGKILL
    assert len(stack.processes()) > 5, "everything but `up` itself goes on"

    shown = stack.start()  # after the crash, and this time with the demo
    assert "replaced what an earlier start left behind: gateway, pool, worker" in shown
    assert "key, shown once" in shown
    assert (await stack.engine_status())["epoch"] == before["epoch"], "the engine was adopted"
    first_env = stack.env
    assert await _works(stack)

    supervisor = stack.part("pool")
    assert supervisor.send(signal.SIGKILL)

    async def replaced() -> bool:
        owners = await stack.rows("SELECT owner FROM supervisor_lease WHERE expires_at > now()")
        return bool(owners) and f"/{supervisor.pid}/" not in owners[0]["owner"]

    await until(replaced)
    assert (await stack.engine_status())["epoch"] == before["epoch"], "and adopted again"

    assert stack.stop() == 0
    assert stack.processes() == []
    _check_journals(stack)

    shown = stack.start()
    assert "key, shown once" not in shown
    assert stack.env == first_env, "the same addresses and the same keys"
    assert await _works(stack)
    async with (
        aiohttp.ClientSession() as anybody,
        anybody.get(stack.env["TOLLWAY_ENGINE_URL"] + "/ready") as answer,
    ):
        assert answer.status == 200
    assert stack.stop(signal.SIGTERM) == 0
    assert stack.processes() == []


def _check_journals(stack: Stack) -> None:
    """The engine drained, and stayed until the reconciler had all that it journalled for the demo's requests."""
    (journal,) = stack.home.glob("run/*/journal")
    assert read_page(journal, "", 10).records
    assert (journal / "acknowledged").exists()
    assert is_acknowledged(journal)
