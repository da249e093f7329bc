"""engine.bench.peer_servers: processes that stop, resume and end, and starts that fail."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from engine.bench.client import Target
from engine.bench.peer_servers import BenchError, Server, llama_cpp, our_engine

_PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"


def test_stop_and_resume_reach_the_children() -> None:
    process = subprocess.Popen([sys.executable, "-c", _PARENT])
    try:
        while not (children := psutil.Process(process.pid).children()):
            time.sleep(0.01)
        server = Server("any", Target("", ""), process.pid)
        server.stop()
        while children[0].status() != psutil.STATUS_STOPPED:
            time.sleep(0.01)
        before = server.cpu_s()
        server.resume()
        while server.cpu_s() <= before:
            time.sleep(0.01)
        assert children[0].status() != psutil.STATUS_STOPPED
    finally:
        for each in (*psutil.Process(process.pid).children(), process):
            each.kill()
        process.wait()


@pytest.mark.parametrize("start", [our_engine, llama_cpp])
def test_a_failed_start_says_why(start: object, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no model")
    assert callable(start)
    with pytest.raises(BenchError, match=r"did not start:(.|\n)*broken\.gguf"), start(broken, 1, 1, 8):
        pass
