"""Facts become sums: in the minute in which they happened, by every threshold, and by hour and day alike."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gateway.slo.counting import Answered, Refused, counted
from gateway.slo.matching import Thresholds
from gateway.slo.types import ALL_TENANTS, Sums
from tests.gateway.slo.test_matching import objective

AT = datetime(2026, 11, 28, 23, 59, 58, 7, tzinfo=UTC)
MINUTE, HOUR, DAY = (
    AT.replace(second=0, microsecond=0),
    datetime(2026, 11, 28, 23, tzinfo=UTC),
    datetime(2026, 11, 28, tzinfo=UTC),
)
SCOPE = ("proj_a", "m", "interactive")


def answered(**fields: Any) -> Answered:
    values: dict[str, Any] = {
        "at": AT,
        "tenant_id": "proj_a",
        "served_model": "m",
        "request_class": "interactive",
        "pool_id": "pool_a",
        "status": "ok",
        "error_code": None,
        "is_stream": True,
        "ttft_ms": 800,
        "tpot_us": 40_001,
        "e2e_ms": 2_000,
    }
    return Answered(**(values | fields))


def own(rows: Mapping[Any, Any]) -> dict[Any, Any]:
    """Without those of all tenants together, which are the same here but for the name."""
    mine = {key: value for key, value in rows.items() if key[1] != ALL_TENANTS}
    together = {(key[0], "proj_a", *key[2:]): value for key, value in rows.items() if key[1] == ALL_TENANTS}
    assert together == mine
    return mine


THRESHOLDS = Thresholds(
    [
        objective("a"),
        objective("b", sli="tpot", threshold_us=40_000),
        objective("c", served_model="m", threshold_us=90_000),
    ]
)


def test_a_request_counts_by_every_threshold() -> None:
    found = counted([answered(), answered(ttft_ms=801)], [], THRESHOLDS)
    assert own(found["minute"].sums) == {
        (MINUTE, *SCOPE, "availability", 0): Sums(2, 2),
        (MINUTE, *SCOPE, "ttft", 800_000): Sums(1, 2),
        (MINUTE, *SCOPE, "ttft", 90_000): Sums(0, 2),
        (MINUTE, *SCOPE, "tpot", 40_000): Sums(0, 2),
    }
    assert own(found["minute"].histograms) == {
        (MINUTE, *SCOPE, "pool_a"): {
            "ttft": {800_000: 1, 810_000: 1},
            "tpot": {41_000: 2},
            "e2e": {2_000_000: 2},
        }
    }
    for width, bucket in (("hour", HOUR), ("day", DAY)):
        assert {(bucket, *key[1:]): sums for key, sums in found["minute"].sums.items()} == found[width].sums


def test_cancelled_counts_as_neither_and_has_no_latency() -> None:
    found = counted([answered(status="cancelled")], [], THRESHOLDS)
    assert not found["day"].sums
    assert not found["day"].histograms


def test_a_failure_is_bad_and_its_first_token_counts_as_it_came() -> None:
    found = counted([answered(status="partial", error_code="server_error", tpot_us=None)], [], THRESHOLDS)[
        "day"
    ].sums
    assert found[(DAY, *SCOPE, "availability", 0)] == Sums(0, 1)
    assert found[(DAY, *SCOPE, "ttft", 800_000)] == Sums(1, 1)
    assert (DAY, *SCOPE, "tpot", 40_000) not in found


def test_an_answer_that_comes_whole_has_no_first_token() -> None:
    found = counted([answered(is_stream=False, tpot_us=None)], [], THRESHOLDS)["day"]
    assert list(own(found.sums)) == [(DAY, *SCOPE, "availability", 0)]
    assert found.histograms[(DAY, *SCOPE, "pool_a")] == {"ttft": {}, "tpot": {}, "e2e": {2_000_000: 1}}


def test_capacity_refusals_are_bad_and_quota_refusals_are_nothing() -> None:
    reasons = {
        "server_is_overloaded": 3,
        "timeout": 2,
        "rate_limit_exceeded": 50,
        "insufficient_quota": 70,
        "model_not_found": 9,
    }
    refused = [Refused(MINUTE, "proj_a", "m", reason, number) for reason, number in reasons.items()]
    found = counted([], refused, THRESHOLDS)
    assert own(found["minute"].sums) == {(MINUTE, *SCOPE, "availability", 0): Sums(0, 5)}


def test_all_tenants_together_are_counted_by_the_promises_to_all() -> None:
    thresholds = Thresholds([objective("a"), objective("b", tenant_id="proj_a", threshold_us=90_000)])
    found = counted([answered(), answered(tenant_id="proj_b")], [], thresholds)["day"].sums
    assert {key[1:]: sums.total for key, sums in found.items() if key[4] == "ttft"} == {
        ("proj_a", "m", "interactive", "ttft", 90_000): 1,
        ("proj_a", "m", "interactive", "ttft", 800_000): 1,
        ("proj_b", "m", "interactive", "ttft", 800_000): 1,
        (ALL_TENANTS, "m", "interactive", "ttft", 800_000): 2,
    }


def test_nobody_in_particular_is_not_all_tenants() -> None:
    found = counted([], [Refused(MINUTE, "", "", "server_is_overloaded", 3)], THRESHOLDS)["day"].sums
    assert {key[1:3] for key in found} == {("", "")}
