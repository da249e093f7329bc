"""What a benchmark file says about a replica, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from workbench.capacity.errors import PlanError
from workbench.capacity.measured import FORMAT, Slo, load, rate_within


def _point(rate: float, ttfts: list[float], failed: int = 0) -> dict[str, Any]:
    requests = [{"ttft_ms": ttft, "tpot_ms": 10.0, "e2el_ms": ttft + 100} for ttft in ttfts]
    return {"rate": rate, "requests": requests, "failed": failed}


RUN: dict[str, Any] = {
    "label": "a",
    "points": [_point(10, [100] * 20), _point(35, [100] * 19 + [900]), _point(50, [100] * 18 + [900] * 2)],
}


def test_the_highest_rate_that_keeps_the_objective() -> None:
    found = rate_within(RUN, Slo(ttft_ms=800))
    assert (found.qps, found.attained, found.is_limit) == (35, 0.95, True)
    assert rate_within(RUN, Slo(ttft_ms=800, share=0.9)).qps == 50
    assert rate_within(RUN, Slo(ttft_ms=800), replicas=5).qps == 7


def test_a_sweep_that_never_left_it_is_no_limit() -> None:
    found = rate_within(RUN, Slo(ttft_ms=1000))
    assert (found.qps, found.is_limit) == (50, False)


def test_failures_did_not_keep_it_and_a_lucky_rate_behind_a_bad_one_does_not_count() -> None:
    points = [_point(1, [1.0] * 20), _point(2, [1.0] * 18, failed=2), _point(3, [1.0] * 20)]
    assert rate_within({"points": points}, Slo(ttft_ms=5)).qps == 1


def test_tpot_counts_and_an_answer_of_one_token_has_none() -> None:
    requests = [{"ttft_ms": 1.0, "tpot_ms": 50.0}, {"ttft_ms": 1.0, "tpot_ms": None}]
    assert Slo(tpot_ms=40).attained(requests, 0) == 0.5
    assert Slo().attained([], 0) == 0.0


def test_no_rate_keeps_it() -> None:
    with pytest.raises(PlanError, match=r"kept by 0% of the requests at 10/s, the lowest rate .* not by 95%"):
        rate_within(RUN, Slo(ttft_ms=50))


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({"format": FORMAT, "runs": [RUN, RUN | {"label": "b"}]}))
    assert load(path, "b")["label"] == "b"
    for label, said in ((None, "choose one with --benchmark-label"), ("c", "holds no run 'c', but a, b")):
        with pytest.raises(PlanError, match=said):
            load(path, label)
    path.write_text(json.dumps({"format": FORMAT, "runs": [RUN]}))
    assert load(path)["label"] == "a"
    path.write_text("{}")
    with pytest.raises(PlanError, match="is no result of `tollway bench"):
        load(path)
    with pytest.raises(PlanError, match="cannot be read"):
        load(tmp_path / "none")
