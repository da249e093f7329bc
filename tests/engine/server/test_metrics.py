"""vLLM's names, right values, one answer whichever process is asked."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from engine.messages import LoadStats
from engine.server.metrics import ALIASES, CORE_COUNTERS, CORE_GAUGES, COUNTERS, HISTOGRAMS, Metrics
from tests.engine.server.conftest import MODEL, Server
from tests.fakes.core import ready

# engine.md's list and what dashboards of older guides ask for.
EXPECTED = {
    *("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"),
    *("vllm:prefix_cache_queries", "vllm:prefix_cache_hits", "vllm:num_preemptions"),
    *("vllm:prompt_tokens", "vllm:generation_tokens", "vllm:time_to_first_token_seconds"),
    *("vllm:inter_token_latency_seconds", "vllm:request_time_per_output_token_seconds"),
    *("vllm:e2e_request_latency_seconds", "vllm:request_queue_time_seconds", "vllm:request_success"),
    *("vllm:cache_config_info", "vllm:gpu_cache_usage_perc", "vllm:time_per_output_token_seconds"),
    *("engine_step_seconds", "engine_predicted_queue_delay_seconds", "engine_page_waste_ratio"),
    *("engine_predicted_ttft_seconds", "engine_sustainable_requests_per_second", "engine_busy_seconds"),
    *("engine_batch_rows", "engine_batch_tokens", "engine_batch_prompt_tokens", "engine_requests_refused"),
    *("engine_fairness_ids", "engine_fairness_spread_tokens"),
    *("engine_pages_offloaded", "engine_pages_restored"),
}


def values(text: str) -> dict[tuple[str, str], float]:
    """(sample name, its own label) → value."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels["engine"] == "0"
            own = {k: v for k, v in sample.labels.items() if k not in ("model_name", "engine")}
            found[sample.name, ",".join(f"{k}={v}" for k, v in sorted(own.items()))] = sample.value
    return found


def test_names(tmp_path: Path) -> None:
    """Duty engine-11: what dashboards ask for is there."""
    text = Metrics(tmp_path, 0, "m").render(LoadStats(), ready())
    names = {family.name for family in text_string_to_metric_families(text)}
    assert names >= EXPECTED
    declared = {*COUNTERS, *CORE_COUNTERS, *CORE_GAUGES, *HISTOGRAMS, *ALIASES}
    assert names == declared | {"engine_step_seconds", "vllm:cache_config_info"}


def test_buckets_are_fine_below_ten_milliseconds() -> None:
    edges = HISTOGRAMS["vllm:inter_token_latency_seconds"][1]
    assert len([edge for edge in edges if edge < 0.01]) >= 5
    assert list(edges) == sorted(set(edges))


def test_counts_and_histograms(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, 0, 'a "quoted"\nname')
    metrics.count("vllm:generation_tokens", 5)
    metrics.count("vllm:request_success", label="finished_reason=stop")
    metrics.observe("vllm:inter_token_latency_seconds", 0.004, 3)
    metrics.observe("vllm:inter_token_latency_seconds", 1e9)
    found = values(metrics.render(LoadStats(num_running=3, prefix_hits=9), None))
    assert found["vllm:generation_tokens_total", ""] == 5
    assert found["vllm:request_success_total", "finished_reason=stop"] == 1
    assert found["vllm:num_requests_running", ""] == 3
    assert found["vllm:prefix_cache_hits_total", ""] == 9
    for name in ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"):
        assert found[f"{name}_bucket", "le=0.003"] == 0
        assert found[f"{name}_bucket", "le=0.004"] == 3
        assert found[f"{name}_bucket", "le=2560.0"] == 3
        assert found[f"{name}_bucket", "le=+Inf"] == found[f"{name}_count", ""] == 4


def test_processes_add_up_and_survive_restarts(tmp_path: Path) -> None:
    """Duty engine-11: whoever is asked."""
    first, second = Metrics(tmp_path, 0, "m"), Metrics(tmp_path, 1, "m")
    first.count("vllm:generation_tokens", 2)
    second.count("vllm:generation_tokens", 3)
    second.observe("vllm:e2e_request_latency_seconds", 1.0)
    first.save()
    second.save()
    for metrics in (first, second, Metrics(tmp_path, 1, "m")):
        found = values(metrics.render(LoadStats(), None))
        assert found["vllm:generation_tokens_total", ""] == 5
        assert found["vllm:e2e_request_latency_seconds_count", ""] == 1
    again = Metrics(tmp_path, 1, "m")
    again.count("vllm:generation_tokens", 10)
    again.save()
    assert values(first.render(LoadStats(), None))["vllm:generation_tokens_total", ""] == 15


def test_unchanged_figures_are_not_written_again(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, 0, "m")
    metrics.save()
    path = tmp_path / "metrics-0.msgpack"
    before = path.stat().st_mtime_ns
    metrics.save()
    assert path.stat().st_mtime_ns == before


async def test_requests_are_counted(server: Server) -> None:
    client = server.client()
    for _ in range(3):
        await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "hi"}], max_tokens=4, n=2
        )
    async with server.session(None) as session, session.get("/metrics") as answer:
        assert answer.headers["content-type"].startswith("text/plain")
        found = values(await answer.text())
    prompt = len(server.core.seen[0].prompt_token_ids)
    assert found["vllm:prompt_tokens_total", ""] == 3 * prompt
    assert found["vllm:generation_tokens_total", ""] == 24
    assert found["vllm:request_success_total", "finished_reason=length"] == 6
    assert found["vllm:time_to_first_token_seconds_count", ""] == 6
    assert found["vllm:inter_token_latency_seconds_count", ""] <= 18
    assert found["vllm:e2e_request_latency_seconds_count", ""] == 6
    assert found["vllm:request_params_n_sum", ""] == 6
    assert found["vllm:num_preemptions_total", ""] == 3
