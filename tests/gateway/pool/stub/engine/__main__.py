"""A stand-in for an engine process: `python -m engine serve …` with this directory on PYTHONPATH.

It answers status, drain and model list like the real one, loads for `--load-s` seconds or until the file
`--load-until` is there, and ends at once with `--crash CODE`. What the file `--says` has is in its status, and `delay_ms` in
its prediction. Its epoch is its pid. `--helper` starts a child, as the real one starts its core.
"""

import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def flag(name: str, default: str = "") -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


LOAD_UNTIL = flag("--load-until")
SAYS = flag("--says")
READY_AT = time.monotonic() + float(flag("--load-s", "0"))
DRAINING = threading.Event()


def said() -> dict[str, int]:
    return json.loads(Path(SAYS).read_text()) if SAYS else {}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        internal = self.path.startswith("/internal/")
        if not self.allowed("INTERNAL" if internal else "API"):
            return
        loaded = time.monotonic() > READY_AT and (not LOAD_UNTIL or os.path.exists(LOAD_UNTIL))
        state = "draining" if DRAINING.is_set() else "ready" if loaded else "starting"
        says = said()
        if self.path == "/metrics":
            gauges = {name: says.get(name, 0) for name in ("running", "waiting")}
            self.reply(200, "".join(f"vllm:num_requests_{name} {value}\n" for name, value in gauges.items()))
            return
        self.answer(200, {"state": state, "epoch": f"epoch-{os.getpid()}"} | says)

    def do_POST(self) -> None:
        if self.allowed("INTERNAL"):
            DRAINING.set()
            self.answer(202, {})
            threading.Timer(float(flag("--drain-s", "0.1")), os._exit, [0]).start()

    def allowed(self, key: str) -> bool:
        wanted = os.environ.get(f"TOLLWAY_ENGINE_{key}_KEY")
        if wanted is None or self.headers.get("Authorization") == f"Bearer {wanted}":
            return True
        self.answer(401, {})
        return False

    def answer(self, status: int, body: dict[str, str]) -> None:
        self.reply(status, json.dumps(body))

    def reply(self, status: int, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("x-engine-predicted-delay-ms", str(said().get("delay_ms", 1500)))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


if flag("--crash"):
    print("stub: error: told to crash\n\n", file=sys.stderr)
    sys.exit(int(flag("--crash")))
if "--helper" in sys.argv:
    subprocess.Popen(["sleep", "600"])
ThreadingHTTPServer((flag("--host"), int(flag("--port"))), Handler).serve_forever()
