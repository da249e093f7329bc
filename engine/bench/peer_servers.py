"""The two servers of `engine.bench.peer`: started as processes of their own, waited for, stopped and resumed.

llama.cpp comes from the `xllamacpp` wheel and runs in a bare process (`python -m engine.bench.peer_servers`), with
the defaults a user gets but for threads, slots and context. Knows no workload.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.bench.client import Target

_START_S = 300.0
_STOP_S = 30.0
_SLACK_TOKENS = 64
"""Of context beyond prompt and answer, in both servers."""


class BenchError(Exception):
    """A server did not start, or a request failed."""


@dataclass(frozen=True, slots=True)
class Server:
    """One side of the comparison."""

    name: str
    target: Target
    pid: int | None
    """The root of its processes; None for a server that is not ours to stop."""

    def stop(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def cpu_s(self) -> float:
        """Processor time that the live processes have taken so far."""
        return sum(sum(process.cpu_times()[:2]) for process in self._processes())

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes():
            process.send_signal(number)

    def _processes(self) -> list[psutil.Process]:
        if self.pid is None:
            return []
        root = psutil.Process(self.pid)
        return [root, *root.children(recursive=True)]


@contextlib.contextmanager
def our_engine(model: Path, threads: int, slots: int, num_tokens: int) -> Iterator[Server]:
    """This engine as its command line starts it."""
    with socket.socket() as keeper:
        # Bound for as long as the engine is there: the kernel gives the port to nobody else while it starts.
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        port = keeper.getsockname()[1]
        command = [
            *(sys.executable, "-m", "engine", "serve", "--model", str(model), "--served-model-name", "peer"),
            *("--port", str(port), "--num-threads", str(threads), "--max-num-seqs", str(slots)),
            *("--max-model-len", str(num_tokens + _SLACK_TOKENS)),
        ]
        with _log() as log, _process(command, log) as process:
            url = f"http://127.0.0.1:{port}"
            _wait_ready(process, port, log)
            yield Server("ours", Target(f"{url}/v1", "peer"), process.pid)


@contextlib.contextmanager
def llama_cpp(model: Path, threads: int, slots: int, num_tokens: int) -> Iterator[Server]:
    """llama.cpp's own server."""
    numbers = (threads, slots, slots * (num_tokens + _SLACK_TOKENS))
    with _log() as log:
        address = log.with_name("address")
        module = (sys.executable, "-m", "engine.bench.peer_servers")
        command = [*module, str(model), *map(str, numbers), str(address)]
        with _process(command, log) as process:
            url = _wait_address(process, log, address)
            yield Server("llama.cpp", Target(f"{url}/v1", "peer"), process.pid)


def main(argv: Sequence[str]) -> None:
    """The bare process: serve until stdin ends; where it listens is written to the file `address`."""
    import xllamacpp

    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    for name in ("threads", "slots", "context"):
        parser.add_argument(name, type=int)
    parser.add_argument("address", type=Path)
    arguments = parser.parse_args(argv)
    params = xllamacpp.CommonParams()
    params.model.path = arguments.model
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = arguments.threads
    params.n_parallel, params.n_ctx = arguments.slots, arguments.context
    params.port = 0
    server = xllamacpp.Server(params)
    # Whole or not at all, and not on stdout, where the library's threads write between our bytes.
    part = arguments.address.with_suffix(".part")
    part.write_text(server.listening_address, encoding="utf-8")
    part.replace(arguments.address)
    sys.stdin.read()
    # Its threads are native and have nothing to save.
    os._exit(0)


@contextlib.contextmanager
def _log() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory) / "server.log"


@contextlib.contextmanager
def _process(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Ended in the end, resumed first where it is stopped."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)
    assert process.stdin is not None
    try:
        yield process
    finally:
        if process.poll() is None:
            for each in psutil.Process(process.pid).children(recursive=True):
                each.resume()
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
        process.stdin.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in _while_starting(process, log):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("GET", "/ready")
            if connection.getresponse().status == 200:
                return


def _wait_address(process: subprocess.Popen[bytes], log: Path, address: Path) -> str:
    for _ in _while_starting(process, log):
        if address.exists():
            return address.read_text(encoding="utf-8")
    raise AssertionError("unreachable: the loop ends by return or raise")


def _while_starting(process: subprocess.Popen[bytes], log: Path) -> Iterator[None]:
    """Ticks until the process ends or its time is over, which raise with the end of its log."""
    deadline = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < deadline:
        yield
        time.sleep(0.1)
    tail = log.read_text(errors="replace")[-2000:]
    raise BenchError(f"{' '.join(map(str, process.args))} did not start:\n{tail}")  # type: ignore[arg-type]  # a list


if __name__ == "__main__":
    main(sys.argv[1:])
