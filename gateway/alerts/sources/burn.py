"""Error budgets that are used up too fast: one scope per series and severity. Pure.

A tenant is told of its own series; all tenants together are the operator's business.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, get_args

from gateway.alerts.episodes import Level, Signal
from gateway.slo.burn import Severity, is_burning
from gateway.slo.types import ALL_TENANTS, MILLION, State

__all__ = ["burn_signals"]

EASE: Final = 0.8
"""An episode is over only below this share of the thresholds that begin one."""


def burn_signals(states: Iterable[State]) -> list[Signal]:
    """Of those that are not quiet: there are thousands of series, and nothing is wrong with most."""
    return [
        Signal(_scope(state, severity), severity, level, _values(state), _tenant(state))
        for state in states
        for severity in get_args(Severity)
        if (level := _level(state, severity)) != "quiet"
    ]


def _level(state: State, severity: Severity) -> Level:
    if is_burning(state, severity):
        return "firing"
    return "between" if is_burning(state, severity, EASE) else "quiet"


def _scope(state: State, severity: Severity) -> str:
    series = state.series
    return "/".join((series.tenant_id, series.served_model, series.request_class, series.sli, severity))


def _tenant(state: State) -> str | None:
    tenant_id = state.series.tenant_id
    return None if tenant_id in ("", ALL_TENANTS) else tenant_id


def _values(state: State) -> dict[str, Any]:
    objective = state.objective
    return {
        "model": state.series.served_model or None,
        "class": state.series.request_class,
        "sli": state.series.sli,
        "objective_id": objective.id,
        "target": objective.target_ppm / MILLION,
        "threshold_ms": objective.threshold_us / 1_000 if objective.threshold_us else None,
        "budget_left": _rounded(state.budget_left),
        "burn": {name: _rounded(rate) for name, rate in state.burn.items()},
        "requests": dict(state.requests),
    }


def _rounded(value: float | None) -> float | None:
    return round(value, 4) if value is not None else None
