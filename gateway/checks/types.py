"""What is known of an installation, and what a check says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from gateway.settings import Settings
from gateway.wire.load import EngineLoad

__all__ = ["Check", "DatabaseFacts", "EngineFacts", "Facts", "Finding", "PoolTokens", "Verdict"]

Json = Mapping[str, Any]


class Verdict(Enum):
    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"
    """What it would need to judge was not given or did not answer."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the checklist."""

    name: str
    verdict: Verdict
    found: str
    advice: str = ""
    """What to do; empty where nothing is to be done."""


@dataclass(frozen=True, slots=True)
class PoolTokens:
    """What the requests of a pool were like, of late."""

    requests: int
    prompt_p99: int
    output_p99: int


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """`problem` says why there are no others."""

    problem: str | None = None
    may_rewrite_events: bool = False
    max_connections: int = 100
    gateways: int = 0
    """Running by their heartbeat."""
    open_review_items: int = 0
    tokens: Mapping[str, PoolTokens] = field(default_factory=dict)
    """By pool."""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """One replica, as it answers."""

    pool_id: str
    url: str
    status: Json | None = None
    """`/internal/status`; None where it did not answer so."""
    is_open: bool = False
    """It answers its public routes without a key."""
    load: EngineLoad | None = None
    """By its `/metrics`; None where it does not show any that are known."""
    cache: Mapping[str, str] = field(default_factory=dict)
    """Labels of `vllm:cache_config_info`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    settings: Settings
    database: DatabaseFacts = field(default_factory=DatabaseFacts)
    not_ready: str | None = None
    """Why the gateway takes no requests."""
    are_metrics_open: bool = False
    pools: Sequence[Json] = ()
    routes: Sequence[Json] = ()
    prices: Sequence[Json] = ()
    objectives: Sequence[Json] = ()
    endpoints: Sequence[Json] = ()
    engines: Sequence[EngineFacts] = ()
    workloads: Sequence[Json] | None = None
    """Objects of `kubectl get … -o json`; None: not given."""
    rule_groups: Sequence[Json] | None = None
    """Of Prometheus; None: not given."""

    @property
    def running_pools(self) -> list[Json]:
        return [pool for pool in self.pools if pool["desired_state"] == "running"]

    @property
    def longest_request_s(self) -> float:
        """By the settings, and by the pools that have a time of their own."""
        given = (pool["traffic"]["total_timeout_s"] for pool in self.pools)
        return max(
            [self.settings.upstream.total_timeout_s, *(float(one) for one in given if one is not None)]
        )


Check = Callable[[Facts], Finding]
