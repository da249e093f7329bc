"""ZeroMQ between processes of one engine: one-way pipes over sockets in the run directory.

The API process binds its own inbox once; each core binds a fresh one, named by its generation, so that nothing
meant for a dead core can reach the next. Encoding is msgspec's msgpack. Knows no requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import zmq

MessageT = TypeVar("MessageT")
Context = zmq.Context[zmq.Socket[bytes]]


def worker_address(run_dir: Path, worker: int) -> str:
    """Where the core sends the outputs of one API process."""
    return f"ipc://{run_dir}/api-{worker}.sock"


def peer_address(run_dir: Path, worker: int) -> str:
    """Where an API process takes its siblings' questions and answers."""
    return f"ipc://{run_dir}/peer-{worker}.sock"


def core_address(run_dir: Path, generation: int) -> str:
    """Where API processes send requests to the core of this generation."""
    return f"ipc://{run_dir}/core-{generation}.sock"


class Sender(Generic[MessageT]):
    """The sending end of a pipe; what nobody has read is lost when it closes."""

    def __init__(self, context: Context, address: str) -> None:
        self._socket = context.socket(zmq.PUSH)
        self._socket.setsockopt(zmq.SNDHWM, 0)  # bounded by the core's own queue limits, which answer 503
        self._socket.setsockopt(zmq.LINGER, 0)  # what a dead reader has not taken must not block our exit
        self._socket.connect(address)
        self._encode = msgspec.msgpack.Encoder().encode

    def send(self, message: MessageT) -> None:
        self._socket.send(self._encode(message), zmq.NOBLOCK)

    def close(self) -> None:
        self._socket.close()


class Receiver(Generic[MessageT]):
    """The receiving end: calls `deliver` on the event loop for every message that arrives."""

    def __init__(
        self, context: Context, address: str, kind: Any, deliver: Callable[[MessageT], None]
    ) -> None:
        self._socket = context.socket(zmq.PULL)
        self._socket.setsockopt(zmq.RCVHWM, 0)
        self._socket.bind(address)
        self._decode: Callable[[bytes], MessageT] = msgspec.msgpack.Decoder(kind).decode
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        self._descriptor = int(self._socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._descriptor, self._drain)
        self._loop.call_soon(self._drain)

    def close(self) -> None:
        self._loop.remove_reader(self._descriptor)
        self._socket.close(linger=0)

    def _drain(self) -> None:
        """ZeroMQ's descriptor signals edges only, so everything there must be taken."""
        while not self._socket.closed:
            try:
                raw = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._deliver(self._decode(raw))
