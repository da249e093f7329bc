"""The core process's side of compilation: jobs in, outcomes out, and a process that may die at any time.

Place in the path: `desk` submits and takes; threads here wait until a child of `compile_process` has tried the grammar
out and then compile it, so the core's own thread does neither. The process is started with the first job and again
whenever it is gone. Knows no requests.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import msgspec

from engine.grammar.compile_process import FINE, Job, Setup, compile_grammar, receive_frame, send_frame

_LOG = logging.getLogger(__name__)

Key = tuple[str, str]
"""Kind and text of a grammar; with the vocabulary, which never changes, all that the result depends on."""

NUM_THREADS = 2
"""Jobs at the same time: one that takes all it may does not hold up the others."""
_NICE = 10
_START_S = 120.0
_GRACE_S = 5.0
"""How much later than its limit a child's end may be seen."""
_COMMAND = (sys.executable, "-m", "engine", "grammar")
_QUIET = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
"""A process that forks must have no threads, and this one needs no device."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Either `compiled` or `error` is set."""

    key: Key
    compiled: Any = None
    size: int = 0
    """Bytes that it takes."""
    error: str | None = None
    is_callers: bool = True
    """The error lies in the grammar."""
    is_final: bool = True
    """Another try would end the same."""
    is_overload: bool = False
    """This machine is too busy, and that is all that is wrong."""


class Compiler:
    """`fileno()` becomes readable when there is something to `take`."""

    def __init__(self, setup: Setup, command: Sequence[str] = _COMMAND, *, start_s: float = _START_S) -> None:
        """`start_s`: how long the process may take to be ready."""
        self._setup = setup
        self._start_s = start_s
        self._command = command
        self._threads = ThreadPoolExecutor(NUM_THREADS, thread_name_prefix="grammar", initializer=_step_back)
        self._done: deque[Outcome] = deque()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        """Guards the process and its control socket."""
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._info: Any = None

    def fileno(self) -> int:
        return self._wake

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def submit(self, key: Key) -> None:
        """Compile, in a thread and a process of their own."""
        self._threads.submit(self._run, key)

    def take(self) -> list[Outcome]:
        """What was finished since the last call; does not wait."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        return [self._done.popleft() for _ in range(len(self._done))]

    def close(self) -> None:
        """End the process; waits for jobs that run."""
        self._threads.shutdown(cancel_futures=True)
        self._stop()
        os.close(self._wake)

    def _run(self, key: Key) -> None:
        try:
            outcome = self._compile(key)
        except TimeoutError:
            _LOG.exception("the grammar process does not start in time")
            outcome = _overload(key)
        except (OSError, EOFError, ImportError, RuntimeError, ValueError) as error:
            _LOG.exception("a grammar could not be compiled")
            message = f"structured output is not available: {type(error).__name__}"
            outcome = Outcome(key, error=message, is_callers=False, is_final=False)
        self._done.append(outcome)
        os.eventfd_write(self._wake, 1)

    def _compile(self, key: Key) -> Outcome:
        answer, waited_s, is_lost = self._try_out(key)
        if is_lost:
            answer, waited_s, _ = self._try_out(key)
        if answer[:1] == FINE:
            compiled = compile_grammar(*key, self._info, self._setup.threads)
            return Outcome(key, compiled, compiled.memory_size_bytes)
        if answer:
            return Outcome(key, error=answer[1:].decode(errors="replace"))
        # The child is gone without a word. Waiting long says more about this machine than about the grammar.
        if waited_s >= self._setup.wall_s:
            return _overload(key)
        return Outcome(key, error=self._too_much())

    def _try_out(self, key: Key) -> tuple[bytes, float, bool]:
        """A child's answer, how long it took, and whether there is none because the process died before it had a
        child."""
        job, process = self._send(key)
        with job:
            began = time.monotonic()
            job.settimeout(self._setup.wall_s + _GRACE_S)
            answer = _receive_all(job)
            waited_s = time.monotonic() - began
        with self._lock:
            return answer, waited_s, not answer and self._is_gone(process)

    def _is_gone(self, process: subprocess.Popen[bytes]) -> bool:
        """Its end of the control socket, on which it says nothing more, closes before that of a job: on a busy machine
        it may be a while until it is dead."""
        if process is not self._process or self._control is None:
            return True  # another job has noticed
        line = select.poll()
        line.register(self._control, select.POLLIN)
        if line.poll(0):
            self._stop()
        return self._process is None

    def _too_much(self) -> str:
        return (
            f"compiling it takes more than {self._setup.cpu_s:g} s or {self._setup.memory_bytes >> 20} MiB; "
            "make it simpler"
        )

    def _send(self, key: Key) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        """Give a job to the process, in a new one if the last has died. Returns our end of the job's connection."""
        with self._lock:
            control, process = self._started()
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    socket.send_fds(control, [b"j"], [theirs.fileno()])
                except OSError:
                    _LOG.warning("the grammar process is gone")
        with contextlib.suppress(BrokenPipeError):
            send_frame(ours, msgspec.msgpack.encode(Job(*key)))
        return ours, process

    def _started(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        if self._control is not None and self._process is not None and self._process.poll() is None:
            return self._control, self._process
        self._stop()
        ours, theirs = socket.socketpair()
        began = time.monotonic()
        with theirs:
            descriptor = theirs.fileno()
            command = (*self._command, "--control-fd", str(descriptor))
            process = subprocess.Popen(command, pass_fds=[descriptor], env={**os.environ, **_QUIET})
        self._control, self._process = ours, process
        try:
            self._greet(ours)
        except BaseException:
            self._stop()  # half started it would be taken for ready
            raise
        _LOG.info("grammar process %d is ready after %.1f s", process.pid, time.monotonic() - began)
        return ours, process

    def _greet(self, control: socket.socket) -> None:
        """Tell the process what it needs, and hear of the vocabulary. Raises TimeoutError, EOFError."""
        control.settimeout(self._start_s)
        send_frame(control, msgspec.msgpack.encode(self._setup))
        raw = receive_frame(control)
        control.settimeout(None)
        if self._info is None:
            import xgrammar

            self._info = xgrammar.TokenizerInfo.deserialize_json(raw.decode())

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._control = self._process = None


def _overload(key: Key) -> Outcome:
    message = "this server is too busy to compile the grammar; retry later"
    return Outcome(key, error=message, is_callers=False, is_final=False, is_overload=True)


def _step_back() -> None:
    """This thread, and the threads and processes that it starts, run when the steps of the engine leave them a
    processor; once, since twice would be never on a machine that is busy."""
    thread = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, thread, max(_NICE, os.getpriority(os.PRIO_PROCESS, thread)))


def _receive_all(job: socket.socket) -> bytes:
    """Until the child is gone; what came until then, and nothing after a time-out."""
    pieces = []
    try:
        while piece := job.recv(1 << 20):
            pieces.append(piece)
    except (TimeoutError, ConnectionResetError):
        return b""
    return b"".join(pieces)
