"""What the process main plugs into the core: where messages come from, where they go, what time it is.

`Loop(inbox, runner, emit, clock, config).run()` returns after a `Shutdown` message, when everything that
was live got its terminal output. Whatever else it raises means that the core process must exit. Knows no
sockets, processes or encodings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from engine.messages import CoreInbound, StepOutputs

Clock = Callable[[], float]
"""Monotonic seconds."""

Emit = Callable[[int, StepOutputs], None]
"""Send one message to the API process with this index. Must not block."""


class Inbox(Protocol):
    """Messages from the API processes, in the order of arrival."""

    def drain(self, timeout_s: float) -> list[CoreInbound]:
        """Everything that has arrived. With nothing there, wait up to `timeout_s` for the first message
        (0: do not wait) and return an empty list if none came."""
        ...
