"""What the supervisor and its children tell each other over a private socket pair, one JSON line each.

The first line a child reads is its `ApiSpec` or `CoreSpec`; keys and settings thus never stand on a command line.
The end of the stream means that the other side is dead. Knows no processes.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from engine.config import EngineConfig
from engine.messages import CoreReady, Shutdown, WorkerGone

_MAX_LINE = 1 << 20


class ApiSpec(msgspec.Struct, frozen=True, tag="api_spec"):
    """How to be an API process."""

    config: EngineConfig
    worker: int
    run_dir: str
    listen_fd: int


class CoreSpec(msgspec.Struct, frozen=True, tag="core_spec"):
    """How to be the core process of this generation."""

    config: EngineConfig
    run_dir: str
    generation: int
    epoch: str


class CoreUp(msgspec.Struct, frozen=True, tag="core_up"):
    """Supervisor → API process: requests may be sent to this core."""

    generation: int
    core_pid: int
    ready: CoreReady


class CoreDown(msgspec.Struct, frozen=True, tag="core_down"):
    reason: str


class Drain(msgspec.Struct, frozen=True, tag="drain"):
    """Take no more, finish what runs, exit."""


class Abort(msgspec.Struct, frozen=True, tag="abort"):
    """End what runs and exit now."""


class DrainWanted(msgspec.Struct, frozen=True, tag="drain_wanted"):
    """API process → supervisor: somebody called /internal/drain."""


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """Core → supervisor: weights are loaded, requests may come."""

    ready: CoreReady


class Serving(msgspec.Struct, frozen=True, tag="serving"):
    """API process → supervisor: the port is answered."""


ToApi = ApiSpec | CoreUp | CoreDown | Drain | Abort
FromApi = DrainWanted | Serving
ToCore = CoreSpec | WorkerGone | Shutdown
FromCore = Ready
"""`Shutdown` and `WorkerGone` are the core's own messages; it finds them in its inbox like any other."""


def encode_line(message: msgspec.Struct) -> bytes:
    return msgspec.json.encode(message) + b"\n"


async def read_lines(reader: Any, kind: Any) -> AsyncIterator[Any]:
    """Messages from an asyncio stream until the other side is gone."""
    decode = msgspec.json.Decoder(kind).decode
    while line := await _read_line(reader):
        yield decode(line)


class LineReader:
    """Messages from a socket in a process without an event loop."""

    def __init__(self, sock: socket.socket, kind: Any) -> None:
        self.socket = sock
        self._decode = msgspec.json.Decoder(kind).decode
        self._rest = b""
        self._messages: list[Any] = []
        self.ended = False
        """The other side is gone."""

    @property
    def has_messages(self) -> bool:
        """Something was read that `take` has not given out: the socket alone does not tell."""
        return bool(self._messages)

    def take(self) -> list[Any]:
        """What was read so far."""
        taken, self._messages = self._messages, []
        return taken

    def wait_first(self) -> Any:
        """Block until one message is there; what came behind it stays for `take`."""
        while not self._messages:
            self.read()
            if self.ended and not self._messages:
                raise ConnectionResetError("the supervisor is gone")
        return self._messages.pop(0)

    def read(self) -> None:
        """Read what has arrived; blocks unless the socket is readable."""
        try:
            data = self.socket.recv(_MAX_LINE)
        except ConnectionError:
            data = b""
        self.ended = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._messages += [self._decode(line) for line in lines]


async def _read_line(reader: Any) -> bytes:
    try:
        line: bytes = await reader.readline()
    except ConnectionError:
        return b""
    return line if line.endswith(b"\n") else b""
