"""The metrics that the code has, with their labels: read from its registries, not from a list."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.parser import text_string_to_metric_families

from engine.messages import LoadStats
from engine.server.metrics import Metrics as EngineMetrics
from gateway.obs.metrics import Metrics as GatewayMetrics
from tests.fakes.core import ready

__all__ = ["TARGET_LABELS", "engine_metrics", "gateway_metrics", "known_metrics"]

TARGET_LABELS = frozenset({"job", "instance", "namespace", "pod", "service"})
"""Given by Prometheus, not by the process."""

_SUFFIXES: Mapping[type[Counter | Gauge | Histogram], tuple[str, ...]] = {
    Counter: ("_total",),
    Gauge: ("",),
    Histogram: ("_bucket", "_sum", "_count"),
}


@cache
def gateway_metrics() -> dict[str, frozenset[str]]:
    """Series name → its labels, of gateway, worker and pool."""
    found: dict[str, frozenset[str]] = {}
    instruments: Collection[object] = vars(GatewayMetrics()).values()
    for instrument in instruments:
        for kind, suffixes in _SUFFIXES.items():
            if isinstance(instrument, kind):
                labels = frozenset(instrument._labelnames)
                for suffix in suffixes:
                    extra = {"le"} if suffix == "_bucket" else set()
                    found[f"{instrument._name}{suffix}"] = labels | extra
    return found


@cache
def engine_metrics() -> dict[str, frozenset[str]]:
    """The same of an engine: what it answers when it has finished a request."""
    with TemporaryDirectory() as directory:
        metrics = EngineMetrics(Path(directory), 0, "model")
        metrics.count("vllm:request_success", label="finished_reason=stop")
        text = metrics.render(LoadStats(), ready())
    families = text_string_to_metric_families(text)
    found: dict[str, frozenset[str]] = {}
    for sample in (sample for family in families for sample in family.samples):
        found[sample.name] = found.get(sample.name, frozenset()) | frozenset(sample.labels)
    return found


def known_metrics() -> dict[str, frozenset[str]]:
    return gateway_metrics() | engine_metrics() | {"up": frozenset()}
