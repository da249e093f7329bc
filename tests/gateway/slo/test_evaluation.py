"""Every series is judged by the objective that holds for it, and by no other's threshold."""

from __future__ import annotations

from gateway.slo.burn import slices
from gateway.slo.evaluation import evaluate
from gateway.slo.types import ALL_TENANTS, Series, Sums
from tests.gateway.slo.test_matching import objective

NOW = 1_790_000_000
LAST = slices(NOW)[-1].start


def test_by_the_threshold_that_holds() -> None:
    usual, own = objective("usual"), objective("own", tenant_id="proj_a", threshold_us=500_000)
    mine, theirs = (Series(name, "m", "interactive", "ttft") for name in ("proj_a", "proj_b"))
    together = Series(ALL_TENANTS, "m", "interactive", "ttft")
    counted = {
        (mine, 800_000): {LAST: Sums(10, 10)},
        (mine, 500_000): {LAST: Sums(9, 10)},
        (theirs, 800_000): {LAST: Sums(5, 10)},
        (together, 800_000): {LAST: Sums(15, 20)},
        (Series("proj_a", "m", "batch", "ttft"), 800_000): {LAST: Sums(0, 10)},
    }
    found = {one.series: one for one in evaluate([usual, own], counted, NOW)}
    assert {series: (one.objective.id, one.sums) for series, one in found.items()} == {
        mine: ("own", Sums(9, 10)),
        theirs: ("usual", Sums(5, 10)),
        together: ("usual", Sums(15, 20)),
    }
    assert round(found[mine].burn["5m"] or 0, 6) == 2
    assert round(found[theirs].budget_left or 0, 6) == -9
