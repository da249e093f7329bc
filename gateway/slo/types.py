"""What crosses the borders of objectives. All frozen.

Latencies are whole microseconds, shares are parts per million. A tenant of `ALL_TENANTS` stands for all of them
together, an empty name for callers or models that nobody recognised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, get_args

__all__ = [
    "ALL_TENANTS",
    "CLASSES",
    "MILLION",
    "SLIS",
    "WINDOW_DAYS",
    "Objective",
    "RequestClass",
    "Series",
    "Sli",
    "State",
    "Sums",
]

Sli = Literal["availability", "ttft", "tpot"]
"""Service level indicator: answered at all, time to first token, time per output token after the first."""
SLIS: Final[tuple[Sli, ...]] = get_args(Sli)
RequestClass = Literal["interactive", "batch"]
CLASSES: Final[tuple[RequestClass, ...]] = get_args(RequestClass)
ALL_TENANTS: Final = "*"
WINDOW_DAYS: Final = 30
MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Objective:
    """A promise: `target_ppm` of the requests it is about are good, over 30 days.

    Without a tenant it is about each tenant by itself and about all of them together; without a model, about each
    model by itself. Of several that are about the same requests the most particular one holds. `threshold_us` is 0
    for availability.
    """

    id: str
    tenant_id: str | None
    served_model: str | None
    request_class: RequestClass
    sli: Sli
    threshold_us: int
    target_ppm: int
    created_at: datetime
    is_recounted: bool = True
    """Whether what happened before it was made has been counted by its threshold."""

    def __post_init__(self) -> None:
        assert 0 < self.target_ppm < MILLION
        assert (self.sli == "availability") == (self.threshold_us == 0)

    @property
    def allowed_bad(self) -> float:
        """Share of requests that may be bad."""
        return (MILLION - self.target_ppm) / MILLION


@dataclass(frozen=True, slots=True, order=True)
class Series:
    """Whose requests, and by which measure."""

    tenant_id: str
    served_model: str
    request_class: str
    sli: str


@dataclass(frozen=True, slots=True)
class Sums:
    good: int = 0
    total: int = 0

    @property
    def bad(self) -> int:
        return self.total - self.good

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.good + other.good, self.total + other.total)


@dataclass(frozen=True, slots=True)
class State:
    """How a series stands with the objective that holds for it.

    `budget_left` is the share of the allowed bad requests that is not used up; negative once more were bad, None
    where nothing happened. `burn`: by window name, how many times faster than allowed budget is used, None where
    nothing happened.
    """

    series: Series
    objective: Objective
    sums: Sums
    budget_left: float | None
    burn: Mapping[str, float | None]
    requests: Mapping[str, int] = field(default_factory=dict)
    """By window name."""
