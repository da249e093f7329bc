"""Start the engine on a tiny model with made-up weights, send one request, stop it.

`python scripts/smoke.py [--device cuda]` proves that an installation can serve; it says nothing about speed
or about right answers.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READY_S = 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from tests.models import write_tiny_llama

    with tempfile.TemporaryDirectory() as directory:
        model = Path(directory) / "model"
        write_tiny_llama(model)
        port = _free_port()
        server = _start(model, port, arguments.device)
        try:
            _wait_until_ready(server, port)
            print(json.dumps(_complete(port)["usage"]))
        finally:
            server.send_signal(signal.SIGTERM)
            code = server.wait(60)
    print(f"the server started, answered and exited with {code}")
    sys.exit(code)


def _start(model: Path, port: int, device: str) -> subprocess.Popen[bytes]:
    command = [
        sys.executable, "-m", "engine", "serve", "--model", str(model), "--load-format", "dummy",
        "--served-model-name", "smoke", "--port", str(port), "--device", device, "--drain-grace-s", "0",
    ]  # fmt: skip
    print("starting:", " ".join(command[1:]), flush=True)
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONUNBUFFERED": "1"})


def _wait_until_ready(server: subprocess.Popen[bytes], port: int) -> None:
    began = time.monotonic()
    while time.monotonic() - began < READY_S:
        if server.poll() is not None:
            sys.exit(f"the server ended with {server.returncode}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5):
                print(f"ready after {time.monotonic() - began:.1f} s", flush=True)
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    sys.exit(f"not ready after {READY_S} s")


def _complete(port: int) -> dict[str, dict[str, int]]:
    body = {"model": "smoke", "prompt": "once upon a time", "max_tokens": 16, "ignore_eos": True}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        parsed: dict[str, dict[str, int]] = json.load(answer)
    if parsed["usage"]["completion_tokens"] != 16:
        sys.exit(f"expected 16 tokens: {parsed}")
    return parsed


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
