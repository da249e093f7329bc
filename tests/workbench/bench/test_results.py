"""Attainment, goodput, ratios and the JSON, by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.workbench.bench.runs import point, result, run
from workbench.bench.results import as_json, ratios
from workbench.capacity.measured import Slo, load, rate_within


def test_a_point_by_hand() -> None:
    found = point([100, 400, 600], failed=1)
    assert found.attained == 0.5, "two of four: one was late and one failed"
    assert found.requests[2] == {"ttft_ms": 600.0, "tpot_ms": 10.0, "e2el_ms": 620.0}
    report = found.report
    # From the first sending to the last token of the one sent at second 2.
    assert report.duration_s == pytest.approx(2.62)
    assert report.goodput_per_s == pytest.approx(2 / 2.62)
    assert report.output_tokens_per_s == pytest.approx(9 / 2.62)
    assert report.latencies_ms["ttft"]["p50"] == pytest.approx(400)
    assert found.ttft_p95_ms == pytest.approx(400 + 200 * 0.9)


def test_nothing_answered() -> None:
    found = point([], failed=3)
    assert (found.attained, found.requests, found.ttft_p95_ms) == (0.0, (), None)


def test_ratios_are_the_second_over_the_first() -> None:
    (first, second) = ratios(run("a", 100, 400), run("b", 50, 800))
    assert (first["rate"], first["ttft_p50"], second["ttft_p50"]) == (
        1.0,
        pytest.approx(0.5),
        pytest.approx(2.0),
    )
    assert first["tpot_p50"] == pytest.approx(1.0)
    assert first["e2el_p50"] == pytest.approx(70 / 120)


def test_the_knee_is_of_the_95th_percentile() -> None:
    assert run("a", 100, 110, 120, 130, 2000).knee == 4.0
    assert run("a", 100, 110, 120, 130).knee is None


def test_plan_reads_the_json(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(as_json(result(run("a", 100, 200, 300, 2000), run("b", 100, 100, 100, 100)))))
    document = json.loads(path.read_text())
    assert document["runs"][0]["knee"] == 3.0
    assert len(document["ratios"]) == 4
    assert rate_within(load(path, "a"), Slo(ttft_ms=250)).qps == 2.0
    assert not rate_within(load(path, "b"), Slo(ttft_ms=250)).is_limit
