"""What a call needs from which limit, and what a refusal says. Pure: no I/O, no clock.

A principal and a served name give *descriptors*, one per limit that concerns the call; the limiter asks the
cache (`limiter.lua`) or `local.LocalLimits` about all of them at once, and this module turns the answer into
headers or an error.

Units: requests/min and tokens/min are buckets of `size` that refill at `rate_per_us`. With `size` = burst, no
60 s hold more than limit + burst requests. A tokens bucket admits while it is positive and may go into debt.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gateway.errors import RateLimited
from gateway.ids import TenantId
from gateway.tenancy.principal import LimitSet, Principal, ScopedLimits

__all__ = [
    "Answer",
    "Descriptor",
    "Kind",
    "LimitRequest",
    "SizeCaps",
    "descriptors_of",
    "go_duration",
    "hopeless",
    "open_calls_key",
    "ratelimit_headers",
    "refusal",
    "share",
    "size_caps",
]

INTERACTIVE = "interactive"
MINUTE_US = 60_000_000
BURST_SHARE = 0.1
CONCURRENCY_RETRY_S = 1.0
"""Nobody knows when another call ends; a second is a polite guess."""


class Kind(StrEnum):
    """The script's letters."""

    REQUESTS = "B"
    TOKENS = "T"
    DAY = "D"
    CONCURRENT = "C"


_METRIC_NAMES = {Kind.REQUESTS: "rpm", Kind.TOKENS: "tpm", Kind.DAY: "rpd", Kind.CONCURRENT: "concurrency"}
_WORDS = {
    Kind.REQUESTS: "requests per min (RPM)",
    Kind.TOKENS: "tokens per min (TPM)",
    Kind.DAY: "requests per day (RPD)",
    Kind.CONCURRENT: "concurrent requests",
}

_OWNERS = {
    "tenant": "project",
    "key": "API key",
    "model": "project, for this model,",
    "key_model": "API key, for this model,",
}


@dataclass(frozen=True, slots=True)
class Descriptor:
    """One limit as it concerns one call."""

    kind: Kind
    scope: str
    """tenant, key, model or key_model: a metric's label, never a name that a caller chose."""
    key: str
    """Where its state is, in the cache and locally."""
    limit: int
    size: int
    rate_per_us: float

    @property
    def metric_name(self) -> str:
        return _METRIC_NAMES[self.kind]

    def amount(self, request: "LimitRequest") -> int:
        return request.estimated_tokens if self.kind is Kind.TOKENS else 1


@dataclass(frozen=True, slots=True)
class LimitRequest:
    """What a call is expected to need."""

    estimated_tokens: int
    request_class: str = INTERACTIVE
    """Each class has buckets of its own, of the same size: a batch takes nothing from who waits for an answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the state said, in the order of the descriptors."""

    refused: int | None
    """Index of the descriptor that refuses for longest; None if the call is admitted."""
    wait_us: int
    day: int
    levels: tuple[int, ...]
    """What is left, after the call if it was admitted; negative is debt."""
    resets_us: tuple[int, ...]
    """Until the limit is as if nothing had been used."""


@dataclass(frozen=True, slots=True)
class SizeCaps:
    """The largest single request that the principal may make; None is no cap. The engine enforces both."""

    max_prompt_tokens: int | None
    max_output_tokens: int | None


def descriptors_of(
    principal: Principal, served_model: str, request_class: str = INTERACTIVE
) -> tuple[Descriptor, ...]:
    return tuple(
        descriptor
        for scoped in principal.limits
        if _concerns(scoped, principal, served_model)
        for descriptor in _descriptors(principal.tenant_id, scoped, request_class)
    )


def size_caps(principal: Principal, served_model: str) -> SizeCaps:
    rows = [row.limits for row in principal.limits if _concerns(row, principal, served_model)]
    return SizeCaps(
        _least(row.max_prompt_tokens for row in rows), _least(row.max_output_tokens for row in rows)
    )


def open_calls_key(tenant_id: TenantId) -> str:
    return f"tw:{{{tenant_id}}}:open"


def hopeless(descriptors: Sequence[Descriptor], request: LimitRequest) -> int | None:
    """Index of a limit that is smaller than the call, so that no waiting would help."""
    for index, descriptor in enumerate(descriptors):
        if descriptor.amount(request) > descriptor.limit:
            return index
    return None


def refusal(
    descriptors: Sequence[Descriptor], answer: Answer, request: LimitRequest, served_model: str
) -> RateLimited:
    """The error for the limit that refuses; it says when to come back, unless the call can never pass."""
    assert answer.refused is not None, "an admitted call has no refusal"
    descriptor = descriptors[answer.refused]
    requested = descriptor.amount(request)
    if requested > descriptor.limit:
        retry_after_s, advice = None, "The request is larger than the whole limit."
    else:
        waits = CONCURRENCY_RETRY_S if descriptor.kind is Kind.CONCURRENT else answer.wait_us / 1e6
        retry_after_s = max(waits, 0.001)
        advice = f"Please try again in {go_duration(int(retry_after_s * 1e6))}."
    return RateLimited(
        "tokens" if descriptor.kind is Kind.TOKENS else "requests",
        f"Rate limit reached for `{served_model}` in your {_OWNERS[descriptor.scope]} on"
        f" {_WORDS[descriptor.kind]}: Limit {descriptor.limit},"
        f" Used {descriptor.limit - answer.levels[answer.refused]}, Requested {requested}. {advice}",
        retry_after_s,
        ratelimit_headers(descriptors, answer),
    )


def ratelimit_headers(descriptors: Sequence[Descriptor], answer: Answer) -> dict[str, str]:
    """OpenAI's six headers, of the requests limit and the tokens limit with the least left."""
    headers: dict[str, str] = {}
    for name, kinds in (("requests", (Kind.REQUESTS, Kind.DAY)), ("tokens", (Kind.TOKENS,))):
        rows = [
            (max(0, level), descriptor.limit, reset)
            for descriptor, level, reset in zip(descriptors, answer.levels, answer.resets_us, strict=True)
            if descriptor.kind in kinds
        ]
        if rows:
            remaining, limit, reset_us = min(rows)
            headers[f"x-ratelimit-limit-{name}"] = str(limit)
            headers[f"x-ratelimit-remaining-{name}"] = str(remaining)
            headers[f"x-ratelimit-reset-{name}"] = go_duration(reset_us)
    return headers


def go_duration(microseconds: int) -> str:
    """As Go prints durations (`120ms`, `1.5s`, `6m0s`), rounded up to whole milliseconds."""
    total_ms = max(0, math.ceil(microseconds / 1000))
    if total_ms == 0:
        return "0s"
    if total_ms < 1000:
        return f"{total_ms}ms"
    minutes, ms = divmod(total_ms, 60_000)
    seconds = f"{ms / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def share(descriptor: Descriptor, replicas: int) -> Descriptor:
    """This replica's part of a limit while replicas cannot see each other; never less than one request."""
    assert replicas >= 1
    return replace(
        descriptor,
        size=max(1, descriptor.size // replicas),
        rate_per_us=descriptor.rate_per_us / replicas,
    )


def _concerns(scoped: ScopedLimits, principal: Principal, served_model: str) -> bool:
    return scoped.key_id in (None, principal.quota_key_id) and scoped.served_model in (None, served_model)


def _descriptors(tenant_id: TenantId, scoped: ScopedLimits, request_class: str) -> list[Descriptor]:
    limits = scoped.limits
    scope, suffix = _scope(scoped)
    if request_class != INTERACTIVE:
        suffix = f"{request_class}:{suffix}"

    def make(kind: Kind, limit: int, size: int, rate_per_us: float) -> Descriptor:
        key = f"tw:{{{tenant_id}}}:{_METRIC_NAMES[kind]}:{suffix}"
        return Descriptor(kind, scope, key, limit, size, rate_per_us)

    found = []
    if limits.concurrent_requests is not None:
        found.append(make(Kind.CONCURRENT, limits.concurrent_requests, limits.concurrent_requests, 0.0))
    if limits.requests_per_min is not None:
        rpm = limits.requests_per_min
        found.append(make(Kind.REQUESTS, rpm, _burst(rpm, limits), rpm / MINUTE_US))
    if limits.requests_per_day is not None:
        found.append(make(Kind.DAY, limits.requests_per_day, limits.requests_per_day, 0.0))
    if limits.tokens_per_min is not None:
        tpm = limits.tokens_per_min
        found.append(make(Kind.TOKENS, tpm, _tenth(tpm), tpm / MINUTE_US))
    return found


def _scope(scoped: ScopedLimits) -> tuple[str, str]:
    """The metric label, and the part of the state's key that no other scope of the tenant can have."""
    if scoped.key_id is None:
        return ("tenant", "t") if scoped.served_model is None else ("model", f"m:{scoped.served_model}")
    if scoped.served_model is None:
        return "key", f"k:{scoped.key_id}"
    return "key_model", f"km:{scoped.key_id}:{scoped.served_model}"


def _burst(requests_per_min: int, limits: LimitSet) -> int:
    return max(1, limits.requests_burst) if limits.requests_burst is not None else _tenth(requests_per_min)


def _tenth(limit: int) -> int:
    return max(1, int(limit * BURST_SHARE))


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)
