"""What a FakeEngine writes into its journal about a request. Knows no HTTP."""

from __future__ import annotations

import time
from typing import Any

from tests.fakes.script import Seen


def record_of(seen: Seen, kind: str, epoch: str) -> dict[str, Any]:
    end = kind == "end"
    finish = {"finished": "stop", "died": "error"}.get(seen.state, "abort") if end else None
    return {
        "kind": kind,
        "request_id": seen.request_id,
        "engine_request_id": f"engine-{seen.number}",
        "attempt": seen.attempt,
        "resumed_from": seen.resumed.resumed_from if seen.resumed is not None else None,
        "epoch": epoch,
        "prompt_tokens": seen.usage.prompt_tokens,
        "cached_tokens": seen.usage.cached_tokens,
        "completion_tokens": None if kind == "start" else seen.usage.completion_tokens,
        "overrun_tokens": 0 if end else None,
        "finish_reason": finish,
        "queue_ms": 0.0 if end else None,
        "ttft_ms": 0.0 if end else None,
        "e2e_ms": 0.0 if end else None,
        "at_ms": int(time.time() * 1000),
    }
