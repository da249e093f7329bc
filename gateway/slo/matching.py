"""Which objectives are about a request, and which of them holds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gateway.slo.types import Objective, Series

__all__ = ["Thresholds", "holding", "is_about"]

Scope = tuple[str, str, str]
"""Tenant, served model, class."""


def is_about(objective: Objective, series: Series) -> bool:
    """All tenants together are the business of objectives without a tenant alone."""
    return (
        objective.sli == series.sli
        and objective.request_class == series.request_class
        and objective.tenant_id in (None, series.tenant_id)
        and (objective.served_model in (None, series.served_model))
    )


def holding(objectives: Iterable[Objective], series: Series) -> Objective | None:
    """The most particular: a tenant's own before all tenants', then one model's before all models'."""
    about = [one for one in objectives if is_about(one, series)]
    return max(about, key=lambda one: (one.tenant_id is not None, one.served_model is not None), default=None)


class Thresholds:
    """What has to be counted for a scope: every threshold of every objective that is about it, not only of the one that
    holds, so that a deleted objective's successor has its history."""

    def __init__(self, objectives: Sequence[Objective]) -> None:
        self._objectives = objectives
        self._known: dict[tuple[Scope, str], tuple[int, ...]] = {}

    def of(self, scope: Scope, sli: str) -> tuple[int, ...]:
        """Ascending, in microseconds; (0,) for availability, which is always counted."""
        key = (scope, sli)
        if key not in self._known:
            series = Series(*scope, sli)
            found = {one.threshold_us for one in self._objectives if is_about(one, series)}
            self._known[key] = (0,) if sli == "availability" else tuple(sorted(found))
        return self._known[key]
