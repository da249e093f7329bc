"""What an engine says about itself: load figures in every reply's headers, and `/internal/status`; a third party's
says them in its metrics.

Lenient: an engine that says nothing has no load report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

import orjson

__all__ = [
    "EngineCounters",
    "EngineLoad",
    "EngineState",
    "EngineStatus",
    "read_counters",
    "read_delay",
    "read_exposition",
    "read_load",
    "read_status",
    "read_wait",
]

EngineState = Literal["starting", "ready", "draining"]


@dataclass(frozen=True, slots=True)
class EngineLoad:
    epoch: str | None
    """None of a third party's engine, which does not say when it was started anew."""
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


@dataclass(frozen=True, slots=True)
class EngineCounters:
    """Since the engine started; None where it does not count."""

    preemptions: int | None
    tokens: int | None
    """Generated."""


_COUNTED = {
    "preemptions": ("vllm:num_preemptions_total", "sglang:num_retracted_reqs_total"),
    "tokens": (
        "vllm:generation_tokens_total",
        "sglang:generation_tokens_total",
        "llamacpp:tokens_predicted_total",
    ),
}
MS_DIGITS = 10
_EXPOSED = (
    ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"),
    ("sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage"),
    ("llamacpp:requests_processing", "llamacpp:requests_deferred", ""),
)
"""Gauges of running and waiting requests and of the share of pages held, by family of servers."""


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


def read_wait(headers: Mapping[str, str]) -> int | None:
    """Whole milliseconds that the request waited in the engine's line, from `x-engine-queue-ms`; None if unsaid."""
    return _milliseconds(headers.get("x-engine-queue-ms", ""))


def read_delay(headers: Mapping[str, str]) -> int | None:
    """Whole milliseconds that a request would wait that came now, as the engine predicts it; None if unsaid."""
    return _milliseconds(headers.get("x-engine-predicted-delay-ms", ""))


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


def read_exposition(text: str) -> EngineLoad | None:
    """From a third party's `/metrics`; None if it has none of the gauges that are known. Gauges that come once per part
    of a server (ranks, models) are added up; of the shares the largest counts."""
    found: dict[str, list[float]] = {}
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if any(name in gauges for gauges in _EXPOSED):
            found.setdefault(name, []).append(_value(line))
    for running, waiting, usage in _EXPOSED:
        if running in found and waiting in found:
            return EngineLoad(
                None, round(sum(found[running])), round(sum(found[waiting])), max(found.get(usage, [0.0]))
            )
    return None


def read_counters(text: str) -> EngineCounters:
    """From the same metrics. A counter that comes once per part of a server is added up."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        for counter, names in _COUNTED.items():
            if name in names:
                found[counter] = found.get(counter, 0.0) + _value(line)
    whole = {name: round(value) for name, value in found.items()}
    return EngineCounters(whole.get("preemptions"), whole.get("tokens"))


def _milliseconds(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < MS_DIGITS else None


def _value(line: str) -> float:
    try:
        value = float(line.rpartition("}")[2].split()[0 if "}" in line else 1])
    except (ValueError, IndexError):
        return 0.0
    return value if isfinite(value) and value > 0 else 0.0
