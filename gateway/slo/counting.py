"""Settled requests and refusals → rows of counts and histograms. Pure.

A row is a sum that is added to what its bucket has: one of the tenant, and one of all tenants together. Each fact is counted once, in the minute in which it happened,
whenever it becomes known; hours and days get the same sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gateway.slo.histogram import Histogram, bound_of
from gateway.slo.matching import Scope, Thresholds
from gateway.slo.types import ALL_TENANTS, Sums
from gateway.slo.verdict import OUR_REFUSALS, is_good

__all__ = ["LATENCIES", "Answered", "CountKey", "Counts", "HistogramKey", "Refused", "counted", "truncated"]

LATENCIES = ("ttft", "tpot", "e2e")
WIDTHS = ("minute", "hour", "day")


@dataclass(frozen=True, slots=True)
class Answered:
    """A settled request. `at` is when it really happened."""

    at: datetime
    tenant_id: str
    served_model: str
    request_class: str
    pool_id: str
    status: str
    error_code: str | None
    is_stream: bool
    ttft_ms: int | None
    tpot_us: int | None
    e2e_ms: int | None

    def latencies(self) -> dict[str, int]:
        """In microseconds. A first token is what streams have: any other answer comes whole."""
        ttft = self.ttft_ms if self.is_stream else None
        found = {"ttft": _us(ttft), "tpot": self.tpot_us, "e2e": _us(self.e2e_ms)}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Refused:
    """Requests that were refused in one minute, beyond those that were counted before."""

    at: datetime
    tenant_id: str
    served_model: str
    reason: str
    requests: int


# Nothing notes refusals of batches: their lines wait and are asked again.
REFUSED_CLASS = "interactive"

CountKey = tuple[datetime, str, str, str, str, int]
"""Bucket, tenant, served model, class, indicator, threshold in microseconds."""
HistogramKey = tuple[datetime, str, str, str, str]
"""Bucket, tenant, served model, class, pool."""


@dataclass(slots=True)
class Counts:
    """Rows of one width."""

    sums: dict[CountKey, Sums] = field(default_factory=dict)
    histograms: dict[HistogramKey, Mapping[str, Histogram]] = field(default_factory=dict)

    def add(self, key: CountKey, good: int, total: int) -> None:
        self.sums[key] = self.sums.get(key, Sums()) + Sums(good, total)

    def observe(self, key: HistogramKey, latencies: Mapping[str, int]) -> None:
        row = self.histograms.setdefault(key, {name: {} for name in LATENCIES})
        for name, value in latencies.items():
            bound = bound_of(value)
            row[name][bound] = row[name].get(bound, 0) + 1


def counted(
    answered: Iterable[Answered], refused: Iterable[Refused], thresholds: Thresholds
) -> dict[str, Counts]:
    """By width: minute, hour, day."""
    found = {width: Counts() for width in WIDTHS}
    for one in answered:
        good = is_good(one.status, one.error_code)
        if good is not None:
            for tenant_id in _whose(one.tenant_id, one.served_model):
                scope = (tenant_id, one.served_model, one.request_class)
                for width, counts in found.items():
                    _answer(counts, truncated(one.at, width), scope, one, good, thresholds)
    for refusal in refused:
        if refusal.reason in OUR_REFUSALS:
            for tenant_id in _whose(refusal.tenant_id, refusal.served_model):
                scope = (tenant_id, refusal.served_model, REFUSED_CLASS)
                for width, counts in found.items():
                    key = (truncated(refusal.at, width), *scope, "availability", 0)
                    counts.add(key, 0, refusal.requests)
    return found


def truncated(at: datetime, width: str) -> datetime:
    """To the beginning of its minute, hour or day, in UTC as all instants here are."""
    at = at.replace(second=0, microsecond=0)
    if width == "minute":
        return at
    return at.replace(minute=0) if width == "hour" else at.replace(hour=0, minute=0)


def _whose(tenant_id: str, served_model: str) -> tuple[str, ...]:
    """A name that nobody recognised is no model that is served to all."""
    return (tenant_id, ALL_TENANTS) if served_model else (tenant_id,)


def _answer(
    counts: Counts, bucket: datetime, scope: Scope, one: Answered, good: bool, thresholds: Thresholds
) -> None:
    counts.add((bucket, *scope, "availability", 0), int(good), 1)
    latencies = one.latencies()
    for sli, value in latencies.items():
        for threshold in thresholds.of(scope, sli):
            counts.add((bucket, *scope, sli, threshold), int(value <= threshold), 1)
    if latencies:
        counts.observe((bucket, *scope, one.pool_id), latencies)


def _us(milliseconds: int | None) -> int | None:
    return milliseconds * 1_000 if milliseconds is not None else None
