"""The core's sockets: an inbox that waits no longer than asked, pipes that forget a dead worker."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import zmq

from engine.core_transport import CoreTransport
from engine.messages import AbortRequest, CoreInbound, LoadStats, Shutdown, StepOutputs, WorkerGone
from engine.server.control import LineReader, Serving, ToCore, encode_line
from engine.server.pipes import core_address, worker_address


class Ends:
    """The other sides of a core's sockets."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.supervisor, control = socket.socketpair()
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.transport = CoreTransport(run_dir, 1, 2, LineReader(control, ToCore))
        self.inboxes: list[zmq.Socket[bytes]] = []
        self.to_core = self.context.socket(zmq.PUSH)
        self.to_core.connect(core_address(run_dir, 1))

    def worker(self, number: int) -> zmq.Socket[bytes]:
        inbox = self.context.socket(zmq.PULL)
        inbox.bind(worker_address(self.run_dir, number))
        inbox.setsockopt(zmq.RCVTIMEO, 60_000)
        self.inboxes.append(inbox)
        return inbox

    def send(self, message: CoreInbound) -> None:
        self.to_core.send(msgspec.msgpack.encode(message))


@pytest.fixture
def ends() -> Iterator[Ends]:
    with tempfile.TemporaryDirectory(prefix="tw-") as folder:
        made = Ends(Path(folder))
        yield made
        made.transport.close(linger_s=0)
        made.supervisor.close()
        for end in (made.to_core, *made.inboxes):
            end.close(linger=0)
        made.context.term()


def step(number: int) -> StepOutputs:
    return StepOutputs(outputs=[], load=LoadStats(steps=number))


def received(inbox: zmq.Socket[bytes]) -> int:
    return msgspec.msgpack.decode(inbox.recv(), type=StepOutputs).load.steps


def test_an_empty_inbox_waits_as_long_as_asked(ends: Ends) -> None:
    assert ends.transport.drain(0) == []
    began = time.monotonic()
    assert ends.transport.drain(0.05) == []
    assert time.monotonic() - began >= 0.04


def test_a_message_ends_the_wait(ends: Ends) -> None:
    timer = threading.Timer(0.05, lambda: ends.send(AbortRequest(request_ids=["a"])))
    timer.start()
    assert ends.transport.drain(30) == [AbortRequest(request_ids=["a"])]
    timer.join()


def test_everything_there_is_taken(ends: Ends) -> None:
    sent = [AbortRequest(request_ids=[str(number)]) for number in range(500)]
    for message in sent:
        ends.send(message)
    got: list[CoreInbound] = []
    while len(got) < len(sent):
        got += ends.transport.drain(60)
    assert got == sent


def test_the_supervisor_speaks_through_the_inbox(ends: Ends) -> None:
    ends.supervisor.sendall(encode_line(WorkerGone(worker=1)) + encode_line(Shutdown()))
    assert ends.transport.drain(60) == [WorkerGone(worker=1), Shutdown()]
    ends.transport.tell_supervisor(Serving())
    assert ends.supervisor.recv(100) == encode_line(Serving())


def test_a_dead_supervisor_means_shutdown(ends: Ends) -> None:
    ends.supervisor.close()
    assert ends.transport.drain(60) == [Shutdown()]


def test_workers_get_their_own_steps_in_order(ends: Ends) -> None:
    inboxes = [ends.worker(0), ends.worker(1)]
    for number in range(100):
        ends.transport.emit(number % 2, step(number))
    assert [received(inboxes[0]) for _ in range(50)] == list(range(0, 100, 2))
    assert [received(inboxes[1]) for _ in range(50)] == list(range(1, 100, 2))


def test_nothing_is_kept_for_a_worker_that_is_gone(ends: Ends) -> None:
    """The next process of that number hears only what was said after its predecessor's death."""
    for number in range(10):
        ends.transport.emit(0, step(number))
    ends.supervisor.sendall(encode_line(WorkerGone(worker=0)))
    assert ends.transport.drain(60) == [WorkerGone(worker=0)]
    inbox = ends.worker(0)
    ends.transport.emit(0, step(77))
    assert received(inbox) == 77


def test_others_may_end_the_wait(ends: Ends) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ends.transport.wake_on(ours.fileno())
        theirs.send(b"x")
        started = time.monotonic()
        assert ends.transport.drain(60.0) == []
        assert time.monotonic() - started < 30
        assert ours.recv(1) == b"x", "it is for its owner to read"
