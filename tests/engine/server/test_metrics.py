"""vLLM's names, right values, one answer whichever process is asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from engine.messages import LoadStats
from engine.server.metrics import CORE_COUNTERS, CORE_GAUGES, HISTOGRAMS, Metrics, table
from tests.engine.server.conftest import MODEL, Server
from tests.engine.server.test_generation import produced
from tests.fakes.core import Script, ready
from tests.tidy.tree import ROOT

LATENCY = (
    *(0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15),
    *(0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560),
)
REQUEST = (
    *(0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960),
    *(1920, 7680),
)
TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000)
SMALL = (1, 2, 5, 10, 20)
VLLM = {
    "gauge": {
        *("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"),
        *("vllm:gpu_cache_usage_perc", "vllm:cache_config_info"),
    },
    "counter": {
        *("vllm:prompt_tokens", "vllm:generation_tokens", "vllm:request_success", "vllm:num_preemptions"),
        *("vllm:prefix_cache_queries", "vllm:prefix_cache_hits"),
    },
}
OURS = {
    "gauge": {
        *("engine_step_seconds", "engine_batch_rows", "engine_batch_tokens", "engine_batch_prompt_tokens"),
        *("engine_predicted_queue_delay_seconds", "engine_predicted_ttft_seconds", "engine_waiting_tokens"),
        *("engine_sustainable_requests_per_second", "engine_page_waste_ratio"),
        *("engine_fairness_ids", "engine_fairness_spread_tokens"),
        *("engine_startup_seconds", "engine_warm_up_seconds"),
    },
    "counter": {
        *("engine_steps", "engine_busy_seconds", "engine_graph_hits", "engine_graph_misses"),
        *("engine_requests_refused", "engine_pages_offloaded", "engine_pages_restored"),
        *("engine_overrun_tokens", "engine_client_disconnects", "engine_internal_errors"),
        *("engine_journal_errors", "engine_core_losses", "engine_late_outputs"),
        "engine_slow_readers",
    },
}
BUCKETS = {
    **dict.fromkeys(("vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds"), LATENCY),
    **dict.fromkeys(
        ("vllm:request_time_per_output_token_seconds", "vllm:time_per_output_token_seconds"), LATENCY
    ),
    **dict.fromkeys(("vllm:e2e_request_latency_seconds", "vllm:request_queue_time_seconds"), REQUEST),
    **dict.fromkeys(("vllm:request_inference_time_seconds", "vllm:request_prefill_time_seconds"), REQUEST),
    "vllm:request_decode_time_seconds": REQUEST,
    **dict.fromkeys(("vllm:request_prompt_tokens", "vllm:request_generation_tokens"), TOKENS),
    "vllm:request_params_max_tokens": TOKENS,
    "vllm:request_params_n": SMALL,
}
OWN_LABELS = {
    "vllm:request_success": {"finished_reason"},
    "vllm:cache_config_info": {"block_size", "num_gpu_blocks"},
}
"""Beside `model_name` and `engine`, which all have."""


def values(text: str) -> dict[tuple[str, str], float]:
    """(sample name, its own label) → value."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels["engine"] == "0"
            own = {k: v for k, v in sample.labels.items() if k not in ("model_name", "engine")}
            found[sample.name, ",".join(f"{k}={v}" for k, v in sorted(own.items()))] = sample.value
    return found


def test_names_and_kinds(tmp_path: Path) -> None:
    """Duty engine-11: what dashboards ask for is there, and nothing comes or goes unnoticed."""
    families = {family.name: family.type for family in families_of(Metrics(tmp_path, 0, "m"))}
    wanted = {name: kind for kinds in (VLLM, OURS) for kind, names in kinds.items() for name in names}
    assert families == wanted | dict.fromkeys(BUCKETS, "histogram")


def test_labels(tmp_path: Path) -> None:
    """Duty engine-11: a panel that groups by another label is empty."""
    metrics = Metrics(tmp_path, 0, "a model")
    metrics.count("vllm:request_success", label="finished_reason=stop")
    for family in families_of(metrics):
        for sample in family.samples:
            own = OWN_LABELS.get(family.name, set()) | ({"le"} if sample.name.endswith("_bucket") else set())
            assert sample.labels.keys() == own | {"model_name", "engine"}, sample
            assert (sample.labels["model_name"], sample.labels["engine"]) == ("a model", "0")


def test_buckets(tmp_path: Path) -> None:
    """Duty engine-11: sums over engines of different edges mean nothing."""
    found: dict[str, list[float]] = {}
    for family in families_of(Metrics(tmp_path, 0, "m")):
        for sample in family.samples:
            if sample.name.endswith("_bucket"):
                found.setdefault(family.name, []).append(float(sample.labels["le"]))
    assert found == {name: [*map(float, edges), float("inf")] for name, edges in BUCKETS.items()}


def test_every_metric_is_in_the_docs() -> None:
    documented = (ROOT / "docs/engine-metrics.md").read_text(encoding="utf-8")
    assert table() in documented, "python -m engine.server.metrics prints it"


def families_of(metrics: Metrics) -> list[Any]:
    return list(text_string_to_metric_families(metrics.render(LoadStats(), ready())))


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


def test_the_cores_figures_are_each_a_metric(tmp_path: Path) -> None:
    """One after the other, so that none stands for another."""
    names = {attribute: name for name, (attribute, _) in (CORE_GAUGES | CORE_COUNTERS).items()}
    assert names.keys() | {"step_ms"} == set(LoadStats.__struct_fields__)
    for attribute, name in names.items():
        found = values(Metrics(tmp_path, 0, "m").render(LoadStats(**{attribute: 7}), ready()))
        changed = {sample for (sample, _), value in found.items() if value == 7}
        aliases = {"vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"}
        assert changed == (
            aliases if name in aliases else {f"{name}_total" if name in CORE_COUNTERS else name}
        )
    found = values(Metrics(tmp_path, 0, "m").render(LoadStats(step_ms=7000), ready()))
    assert found["engine_step_seconds", ""] == 7


def test_how_long_the_start_took(tmp_path: Path) -> None:
    about = replace(ready(), startup_s=9.5, warm_up_s=2.25)
    found = values(Metrics(tmp_path, 0, "m").render(LoadStats(), about))
    assert (found["engine_startup_seconds", ""], found["engine_warm_up_seconds", ""]) == (9.5, 2.25)
    none_yet = values(Metrics(tmp_path, 0, "m").render(LoadStats(), None))
    assert ("engine_startup_seconds", "") not in none_yet


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


async def test_the_time_between_tokens_counts_every_token(server: Server) -> None:
    """Several may come in one step: the time since the last ones is shared among them."""
    now = [server.services.clock()]
    server.services.clock = lambda: now[0]
    server.core.hold()
    server.core.script(Script(per_step=3))
    body = {"model": MODEL, "prompt": "a b c", "max_tokens": 12}
    async with server.session() as session:
        asked = asyncio.create_task(session.post("/v1/completions", json=body))
        await server.core_until(lambda: server.core.num_live == 1)
        for step in range(4):
            now[0] += 0.5
            server.core.release()
            if step < 3:
                await produced(server, 3 * step + 3)
        async with await asked as answer:
            assert (await answer.json())["usage"]["completion_tokens"] == 12
        async with session.get("/metrics") as answer:
            found = values(await answer.text())
    assert found["vllm:inter_token_latency_seconds_count", ""] == 9, "the first three came together"
    assert found["vllm:inter_token_latency_seconds_sum", ""] == pytest.approx(1.5)
    assert found["vllm:request_decode_time_seconds_sum", ""] == pytest.approx(1.5)
    assert found["vllm:request_time_per_output_token_seconds_sum", ""] == pytest.approx(1.5 / 11)
