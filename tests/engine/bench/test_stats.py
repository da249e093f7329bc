"""engine.bench.stats: the definitions, on requests whose figures can be had by hand."""

from __future__ import annotations

import pytest

from engine.bench.stats import Objectives, Outcome, percentile, summarise

FAST = Outcome(0, 10.0, (10.1, 10.2, 10.4), prompt_tokens=7, output_tokens=3, cached_tokens=3)
SLOW = Outcome(1, 11.0, (12.0,), prompt_tokens=5, output_tokens=1)
LOST = Outcome(2, 11.0, error="500: no")


def test_one_request() -> None:
    assert FAST.ttft_ms == pytest.approx(100)
    assert FAST.e2el_ms == pytest.approx(400)
    assert FAST.tpot_ms == pytest.approx(150)
    assert FAST.itl_ms == pytest.approx([100, 200])
    assert SLOW.tpot_ms is None


def test_chunks_with_several_tokens_count_tokens_not_chunks() -> None:
    outcome = Outcome(0, 0.0, (0.1, 0.5), output_tokens=9)
    assert outcome.tpot_ms == pytest.approx(50)
    assert outcome.itl_ms == pytest.approx([400])


def test_summary_counts_failures_and_throughput() -> None:
    report = summarise([SLOW, LOST, FAST], Objectives(ttft_ms=500))
    assert (report.completed, report.failed, report.first_error) == (2, 1, "500: no")
    assert report.duration_s == pytest.approx(2.0)
    assert report.output_tokens_per_s == pytest.approx(2.0)
    assert report.total_tokens_per_s == pytest.approx(8.0)
    assert report.goodput_per_s == pytest.approx(0.5)
    assert report.cached_prompt_share == pytest.approx(3 / 12)
    assert report.latencies_ms["ttft"]["mean"] == pytest.approx(550)


def test_warm_up_requests_count_for_throughput_only() -> None:
    report = summarise([SLOW, FAST], Objectives(), num_warm_up=1)
    assert report.completed == 2
    assert report.latencies_ms["ttft"]["p99"] == pytest.approx(1000), "the one sent first is left out"


def test_nothing_completed() -> None:
    report = summarise([LOST], Objectives())
    assert (report.completed, report.output_tokens_per_s) == (0, 0.0)
    assert report.latencies_ms["ttft"] == {}


def test_percentile_interpolates() -> None:
    values = [1.0, 2.0, 3.0, 4.0]
    assert [percentile(values, share) for share in (0, 50, 100)] == [1.0, 2.5, 4.0]
    assert percentile([5.0], 99) == 5.0
