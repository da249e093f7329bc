"""Loops go on after whatever was not asked for, and end when they are told to."""

import asyncio

import pytest

from gateway.ledger.keeping import keep_running
from gateway.obs.logging import get_logger
from gateway.obs.metrics import Metrics


@pytest.mark.parametrize("death", [asyncio.CancelledError("a driver's"), LookupError("a bug"), MemoryError()])
async def test_a_loop_that_ends_without_being_asked_begins_again_and_is_counted(death: BaseException) -> None:
    metrics, deaths = Metrics(), [death, death]

    async def work() -> None:
        if deaths:
            raise deaths.pop()

    await keep_running("test", work, metrics, get_logger("test"))
    assert not deaths
    assert metrics.unexpected_errors.labels(edge="ledger-test")._value.get() == 2


async def test_a_loop_that_is_cancelled_ends() -> None:
    metrics, began = Metrics(), asyncio.Event()

    async def work() -> None:
        began.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(keep_running("test", work, metrics, get_logger("test")))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert metrics.unexpected_errors.labels(edge="ledger-test")._value.get() == 0
