"""Loops that must not die: whatever ends one without being asked to is logged and counted, and the loop begins again.

A batcher that is gone leaves every caller waiting, a heartbeat that is gone makes the reconciler take a living gateway
for dead. A driver may let a CancelledError out that nobody asked for; it would end a task without a word. It does not
know what the loops do.
"""

import asyncio
from collections.abc import Awaitable, Callable

from structlog.typing import FilteringBoundLogger

from gateway.db import reason
from gateway.obs.metrics import Metrics

__all__ = ["keep_running", "was_asked_for"]

RESTART_DELAY_S = 0.1


async def keep_running(
    name: str, work: Callable[[], Awaitable[None]], metrics: Metrics, log: FilteringBoundLogger
) -> None:
    """Until `work` returns by itself, or this task is cancelled."""
    while True:
        try:
            await work()
            return
        except BaseException as error:
            if was_asked_for(error):
                raise
            metrics.unexpected_errors.labels(edge=f"ledger-{name}").inc()
            log.exception("ledger_loop_failed", loop=name, error=reason(error))
        await asyncio.sleep(RESTART_DELAY_S)


def was_asked_for(error: BaseException) -> bool:
    """This task was cancelled, or the process is to end: nothing for anybody but them to handle."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit)
