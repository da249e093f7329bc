"""The core process's sockets: its inbox, and one outgoing pipe per API process.

Plugs into `engine.core.loop` (`Inbox`, `Emit`). What the supervisor says over the control socket (a worker is
gone, shut down) arrives in the same inbox, after the pipe of a dead worker was replaced so that nothing is kept
for it. Knows no requests and no tensors.
"""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import zmq

from engine.messages import CoreInbound, Shutdown, StepOutputs, WorkerGone
from engine.server.control import LineReader, encode_line
from engine.server.pipes import core_address, worker_address


class CoreTransport:
    """Used from the core's thread only."""

    def __init__(self, run_dir: Path, generation: int, num_workers: int, supervisor: LineReader) -> None:
        self._run_dir = run_dir
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._inbox = self._context.socket(zmq.PULL)
        self._inbox.setsockopt(zmq.RCVHWM, 0)
        self._inbox.bind(core_address(run_dir, generation))
        self._outboxes = [_Outbox(worker_address(run_dir, worker)) for worker in range(num_workers)]
        self._supervisor = supervisor
        self._decode = msgspec.msgpack.Decoder(CoreInbound).decode
        self._encode = msgspec.msgpack.Encoder().encode
        self._poller = zmq.Poller()
        self._poller.register(self._inbox, zmq.POLLIN)
        self._poller.register(supervisor.socket.fileno(), zmq.POLLIN)

    def wake_on(self, descriptor: int) -> None:
        """`drain` returns early while this is readable; whoever owns it reads it."""
        self._poller.register(descriptor, zmq.POLLIN)

    def drain(self, timeout_s: float) -> list[CoreInbound]:
        """Everything that has arrived; waits up to `timeout_s` for the first message. The socket library waits in
        milliseconds: what is less is over at once, so that a step is never late for it."""
        messages: list[CoreInbound] = []
        wait_ms = 0 if self._supervisor.has_messages else math.floor(timeout_s * 1000)
        if self._supervisor.socket.fileno() in dict(self._poller.poll(wait_ms)):
            self._supervisor.read()
        if self._supervisor.has_messages or self._supervisor.ended:
            messages += self._supervisor_messages()
        while True:
            try:
                messages.append(self._decode(self._inbox.recv(zmq.NOBLOCK)))
            except zmq.Again:
                return messages

    def emit(self, worker: int, step: StepOutputs) -> None:
        """Queue a message for an API process. Without a limit: its reader only stops by dying, and then the
        supervisor says so and the queue is dropped."""
        self._outboxes[worker].send(self._encode(step))

    def tell_supervisor(self, message: msgspec.Struct) -> None:
        self._supervisor.socket.sendall(encode_line(message))

    def close(self, linger_s: float = 1.0) -> None:
        """Delivers what is still queued, for at most `linger_s`."""
        for outbox in self._outboxes:
            outbox.close(linger_s)
        self._inbox.close(linger=0)
        self._context.term()
        self._supervisor.socket.close()

    def _supervisor_messages(self) -> list[CoreInbound]:
        messages: list[CoreInbound] = self._supervisor.take()
        if self._supervisor.ended:
            messages.append(Shutdown())
        for message in messages:
            if isinstance(message, WorkerGone):
                self._outboxes[message.worker].close(linger_s=0)
                self._outboxes[message.worker] = _Outbox(worker_address(self._run_dir, message.worker))
        return messages


class _Outbox:
    """The pipe to one API process. Has a context of its own: a socket is closed by its context's thread some time
    after `close`, and could still deliver to a successor; the end of the context waits for that."""

    def __init__(self, address: str) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.PUSH)
        self._socket.setsockopt(zmq.SNDHWM, 0)
        self._socket.connect(address)

    def send(self, message: bytes) -> None:
        self._socket.send(message, zmq.NOBLOCK)

    def close(self, linger_s: float) -> None:
        self._socket.close(linger=int(linger_s * 1000))
        self._context.term()
