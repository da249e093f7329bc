"""The bytes of a stream on their way from the engine to the caller, as long as nothing has to be waited for.

Called by the connection for what has arrived, so that a token wakes no task. It stops for whatever somebody else must
decide or wait for: the first data, the end, an error, a slow reader.
"""

from __future__ import annotations

from gateway.exchange.sink import Sink
from gateway.obs.failpoints import failpoint
from gateway.upstream import Deadlines
from gateway.wire import StreamScanner

__all__ = ["Relay"]


class Relay:
    """Of one attempt."""

    __slots__ = ("_deadlines", "_scanner", "_sink", "has_begun", "unsent")

    def __init__(self, scanner: StreamScanner, sink: Sink, deadlines: Deadlines) -> None:
        self.unsent = b""
        """What was read when `take` stopped, and is still to be sent."""
        self.has_begun = False
        """Whoever must know of the first data does."""
        self._scanner = scanner
        self._sink = sink
        self._deadlines = deadlines

    def take(self, data: bytes) -> bool:
        """False: it stops here, with `unsent`."""
        self._deadlines.progress()
        scanner = self._scanner
        passed = scanner.feed(data)
        is_plain = self.has_begun and not scanner.done and scanner.error is None
        if is_plain and self._sink.write(passed):
            failpoint("stream.sent")
            return True
        self.unsent = passed
        return False
