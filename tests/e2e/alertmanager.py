"""A real Alertmanager takes what is sent to it: `make alertmanager` with the binary in the path, or ALERTMANAGER=/its/path.

An alert begins, is shown, and is over when the event that ends it has come; what is told once stays.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gateway.alerts.types import Record
from gateway.alerts.webhooks.formats.alertmanager import alertmanager_body
from gateway.pool.process import free_port

__all__ = ["main"]

CONFIG = "route: {receiver: none}\nreceivers: [{name: none}]\n"
WAIT_S = 30


def main() -> None:
    program = os.environ.get("ALERTMANAGER") or "alertmanager"
    url = f"http://127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "config.yml"
        config.write_text(CONFIG, encoding="utf-8")
        command = [program, f"--config.file={config}", f"--storage.path={directory}"]
        command += [f"--web.listen-address={url.removeprefix('http://')}", "--cluster.listen-address="]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            _until(lambda: _get(f"{url}/-/ready") is not None, "it is ready")
            _walk(f"{url}/api/v2/alerts")
        finally:
            process.terminate()
            process.wait()
    print("alertmanager: what begins is shown, what ends is over, what is told once stays")


def _walk(url: str) -> None:
    def tell(number: int, kind: str, tenant_id: str | None, **payload: Any) -> None:
        record = Record(f"evt_{number}", kind, tenant_id, payload, datetime.now(UTC))
        _post(url, alertmanager_body(record))

    def shown() -> set[str]:
        return {one["labels"]["alertname"] for one in json.loads(_get(url) or b"[]")}

    tell(1, "slo.burn_rate.firing", "proj_a", incident="episode_1", severity="page", summary="Fast burn")
    tell(2, "pool.kv_high", None, incident="episode_2", state="firing")
    tell(3, "ledger.drift", None, nanousd=2**53 + 1)
    _until(lambda: shown() == {"slo.burn_rate.firing", "pool.kv_high", "ledger.drift"}, "all are shown")
    tell(4, "slo.burn_rate.resolved", "proj_a", incident="episode_1")
    tell(5, "pool.kv_high", None, incident="episode_2", state="resolved")
    _until(lambda: shown() == {"ledger.drift"}, "two are over")


def _until(holds: Callable[[], bool], what: str) -> None:
    ends_at = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < ends_at, f"waited in vain: {what}"
        time.sleep(0.1)


def _get(url: str) -> bytes | None:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            found: bytes = answer.read()
            return found
    except OSError:
        return None


def _post(url: str, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=5) as answer:
        assert answer.status == 200


if __name__ == "__main__":
    main()
