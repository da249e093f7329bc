"""Which objective holds: the most particular one that is about the request."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gateway.slo.matching import Thresholds, holding, is_about
from gateway.slo.types import ALL_TENANTS, Objective, Series

TTFT = Series("proj_a", "m", "interactive", "ttft")


def objective(name: str = "o", **fields: Any) -> Objective:
    values: dict[str, Any] = {
        "tenant_id": None,
        "served_model": None,
        "request_class": "interactive",
        "sli": "ttft",
        "threshold_us": 800_000,
        "target_ppm": 950_000,
    }
    return Objective(id=name, created_at=datetime(2026, 1, 1, tzinfo=UTC), **(values | fields))


def test_the_most_particular_one_holds() -> None:
    usual, model = objective("usual"), objective("model", served_model="m")
    tenant = objective("tenant", tenant_id="proj_a")
    both = objective("both", tenant_id="proj_a", served_model="m")
    others = [objective("other", tenant_id="proj_b"), objective("slow", request_class="batch")]
    found: list[Objective] = [*others]
    for one in (usual, model, tenant, both):
        found.append(one)
        assert holding(found, TTFT) == one
        assert holding(found[::-1], TTFT) == one
    assert holding(others, TTFT) is None


def test_all_tenants_together_are_nobodys_own() -> None:
    together = Series(ALL_TENANTS, "m", "interactive", "ttft")
    assert is_about(objective(), together)
    assert not is_about(objective(tenant_id="proj_a"), together)


def test_every_threshold_is_counted_once() -> None:
    thresholds = Thresholds(
        [
            objective("a"),
            objective("b", served_model="m"),
            objective("c", tenant_id="proj_a", threshold_us=500_000),
        ]
    )
    assert thresholds.of(("proj_a", "m", "interactive"), "ttft") == (500_000, 800_000)
    assert thresholds.of(("proj_b", "m", "interactive"), "ttft") == (800_000,)
    assert thresholds.of(("proj_b", "m", "batch"), "ttft") == ()
    assert thresholds.of(("proj_b", "m", "batch"), "availability") == (0,)
