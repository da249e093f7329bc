"""What an engine says about itself: load figures in every reply's headers, and `/internal/status`.

Lenient: an engine that says nothing (a third party's) has no load report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

__all__ = ["EngineLoad", "EngineState", "EngineStatus", "read_load", "read_status"]

EngineState = Literal["starting", "ready", "draining"]


@dataclass(frozen=True, slots=True)
class EngineLoad:
    epoch: str
    running: int
    waiting: int
    kv_usage: float

    @property
    def requests(self) -> int:
        return self.running + self.waiting


@dataclass(frozen=True, slots=True)
class EngineStatus:
    load: EngineLoad
    state: EngineState
    model: str
    max_model_len: int | None
    request_ids: frozenset[str]


def read_load(headers: Mapping[str, str]) -> EngineLoad | None:
    """From `x-engine-*`; None if any of them is missing or no number."""
    try:
        return EngineLoad(
            headers["x-engine-epoch"],
            int(headers["x-engine-running"]),
            int(headers["x-engine-waiting"]),
            float(headers["x-engine-kv-usage"]),
        )
    except (KeyError, ValueError):
        return None


def read_status(raw: bytes) -> EngineStatus | None:
    """None when the body is not the status object of the contract."""
    try:
        fields: dict[str, Any] = orjson.loads(raw)
        state = fields["state"]
        if state not in ("starting", "ready", "draining"):
            return None
        return EngineStatus(
            EngineLoad(
                str(fields["epoch"]),
                int(fields["running"]),
                int(fields["waiting"]),
                float(fields["kv_usage"]),
            ),
            state,
            str(fields["model"]),
            fields.get("max_model_len"),
            frozenset(fields["request_ids"]),
        )
    except (KeyError, TypeError, ValueError):
        return None
