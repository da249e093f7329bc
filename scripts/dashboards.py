"""Writes deploy/grafana/*.json: `python -m scripts.dashboards`. The dashboards are described here, and are that file's
output alone. Grafana 10 or newer; each asks for its Prometheus when it is imported. Knows nothing of who serves them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["DASHBOARDS", "FOLDER", "render"]

FOLDER = Path(__file__).resolve().parents[1] / "deploy/grafana"
SERVING = 'endpoint=~"chat.completions|completions|embeddings|responses"'
PICKED = 'model=~"$model"'
ENGINE = 'model_name=~"$model_name",instance=~"$instance"'
COLUMNS, HEIGHT = 24, 8


@dataclass(frozen=True)
class Panel:
    title: str
    queries: Sequence[tuple[str, str]]
    """Expression and legend."""
    unit: str = "short"
    kind: str = "timeseries"
    about: str = ""
    width: int = 12
    limits: Sequence[float] = ()
    """Where yellow, then red, begins."""


@dataclass(frozen=True)
class Dashboard:
    uid: str
    title: str
    panels: Sequence[Panel]
    variables: dict[str, str] = field(default_factory=dict)
    """Name → metric whose label of that name it offers."""


def quantiles(metric: str, by: str, where: str, *shares: float) -> list[tuple[str, str]]:
    rate = f"sum by ({by}, le) (rate({metric}_bucket{{{where}}}[$__rate_interval]))"
    return [
        (f"histogram_quantile({share}, {rate})", f"p{round(share * 100)} {legend_of(by)}") for share in shares
    ]


def rate(metric: str, by: str, where: str = "") -> tuple[str, str]:
    return f"sum by ({by}) (rate({metric}{{{where}}}[$__rate_interval]))", legend_of(by)


def highest(metric: str, by: str, where: str = "") -> tuple[str, str]:
    return f"max by ({by}) ({metric}{{{where}}})", legend_of(by)


def legend_of(by: str) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in by.split(", "))


GATEWAY = Dashboard(
    "tollway-gateway",
    "Tollway: gateways and promises",
    (
        Panel("Failed, last hour", [("max(model:tollway_requests_failed:ratio_rate1h)", "worst model")],
              "percentunit", "stat", "The promise is 0.1 %.", 6, (0.001, 0.0144)),
        Panel("First token over 1 s, last hour", [("max(model:tollway_first_token_late:ratio_rate1h)", "worst model")],
              "percentunit", "stat", "The promise is 5 %.", 6, (0.05, 0.3)),
        Panel("In flight", [("sum(tollway_requests_in_flight)", "requests")], "short", "stat", width=6),
        Panel("Gateways", [('count(up{job="tollway-gateway"} == 1)', "up")], "short", "stat", width=6),
        Panel("Burn rate of availability", [
            (f"model:tollway_requests_failed:ratio_rate1h{{{PICKED}}} / 0.001", "{{model}} 1 h"),
            (f"model:tollway_requests_failed:ratio_rate6h{{{PICKED}}} / 0.001", "{{model}} 6 h")],
            about="1 uses up the budget in 30 days. Pages at 14.4 and 6.", limits=(6, 14.4)),
        Panel("Burn rate of the first token", [
            (f"model:tollway_first_token_late:ratio_rate1h{{{PICKED}}} / 0.05", "{{model}} 1 h"),
            (f"model:tollway_first_token_late:ratio_rate6h{{{PICKED}}} / 0.05", "{{model}} 6 h")],
            limits=(6, 14.4)),
        Panel("Requests by code", [rate("tollway_requests_total", "code", f"{SERVING},{PICKED}")], "reqps"),
        Panel("Requests by model", [rate("tollway_requests_total", "model", f"{SERVING},{PICKED}")], "reqps"),
        Panel("Time to first token", quantiles("tollway_first_token_seconds", "model", PICKED, 0.5, 0.95, 0.99), "s"),
        Panel("Whole requests", quantiles("tollway_request_seconds", "model", PICKED, 0.5, 0.95, 0.99), "s"),
        Panel("Busiest tenants", [
            ("topk(10, sum by (tenant) (rate(tollway_requests_total[$__rate_interval])))", "{{tenant}}")], "reqps"),
        Panel("Refused by limits", [rate("tollway_limit_refusals_total", "limit, scope")], "reqps"),
        Panel("Attempts at replicas", [rate("tollway_upstream_attempts_total", "pool, outcome")], "reqps"),
        Panel("Second attempts and continued streams", [
            rate("tollway_upstream_retries_total", "pool"), rate("tollway_continued_streams_total", "pool")], "reqps"),
        Panel("Replicas by state", [highest("tollway_pool_replicas", "pool, state")]),
        Panel("Open breakers", [highest("tollway_breaker_open", "replica")]),
        Panel("Keys looked up", [rate("tollway_key_lookups_total", "result")], "ops"),
        Panel("Feed and limiter", [
            ("min(tollway_config_feed_fresh)", "feed is fresh"), ("max(tollway_limiter_local)", "limits are local")]),
        Panel("Callers who left", [rate("tollway_client_disconnects_total", "model", PICKED)], "reqps"),
        Panel("Unexpected errors", [rate("tollway_unexpected_errors_total", "edge")], "ops"),
    ),
    {"model": "tollway_requests_total"},
)  # fmt: skip

ENGINES = Dashboard(
    "tollway-engines",
    "Tollway: engines",
    (
        Panel("Running and waiting", [
            highest("vllm:num_requests_running", "instance", ENGINE),
            highest("vllm:num_requests_waiting", "instance", ENGINE)], about="More than 30 waiting: another replica.",
            limits=(30, 50)),
        Panel("Expected wait and first token", [
            highest("engine_predicted_queue_delay_seconds", "instance", ENGINE),
            highest("engine_predicted_ttft_seconds", "instance", ENGINE)], "s"),
        Panel("KV memory", [highest("vllm:kv_cache_usage_perc", "instance", ENGINE)], "percentunit", limits=(0.9, 0.95)),
        Panel("Tokens per second", [
            rate("vllm:generation_tokens_total", "instance", ENGINE), rate("vllm:prompt_tokens_total", "instance", ENGINE)]),
        Panel("Prompt tokens found in the cache", [(
            f"sum by (instance) (rate(vllm:prefix_cache_hits_total{{{ENGINE}}}[$__rate_interval]))"
            f" / sum by (instance) (rate(vllm:prefix_cache_queries_total{{{ENGINE}}}[$__rate_interval]))",
            "{{instance}}")], "percentunit"),
        Panel("Preemptions and refusals", [
            rate("vllm:num_preemptions_total", "instance", ENGINE),
            rate("engine_requests_refused_total", "instance", ENGINE)], "ops"),
        Panel("Busy", [rate("engine_busy_seconds_total", "instance", ENGINE)], "percentunit", about="Share of time in steps."),
        Panel("Step", [highest("engine_step_seconds", "instance", ENGINE)], "s"),
        Panel("Tokens and rows of a step", [
            highest("engine_batch_tokens", "instance", ENGINE), highest("engine_batch_prompt_tokens", "instance", ENGINE),
            highest("engine_batch_rows", "instance", ENGINE)]),
        Panel("Graphs: replayed and missed", [
            rate("engine_graph_hits_total", "instance", ENGINE), rate("engine_graph_misses_total", "instance", ENGINE)], "ops"),
        Panel("Fairness: ids and the distance between them", [
            highest("engine_fairness_ids", "instance", ENGINE),
            highest("engine_fairness_spread_tokens", "instance", ENGINE)]),
        Panel("Can be sustained", [highest("engine_sustainable_requests_per_second", "instance", ENGINE)], "reqps"),
        Panel("Pages to and from host memory", [
            rate("engine_pages_offloaded_total", "instance", ENGINE),
            rate("engine_pages_restored_total", "instance", ENGINE)], "ops"),
        Panel("Held and unused", [highest("engine_page_waste_ratio", "instance", ENGINE)], "percentunit"),
        Panel("What went wrong", [
            rate("engine_internal_errors_total", "instance", ENGINE), rate("engine_journal_errors_total", "instance", ENGINE),
            rate("engine_core_losses_total", "instance", ENGINE), rate("engine_slow_readers_total", "instance", ENGINE)], "ops"),
        Panel("Computed for nobody", [
            rate("engine_overrun_tokens_total", "instance", ENGINE),
            rate("engine_client_disconnects_total", "instance", ENGINE)]),
    ),
    {"model_name": "vllm:num_requests_running", "instance": "vllm:num_requests_running"},
)  # fmt: skip

LEDGER = Dashboard(
    "tollway-ledger",
    "Tollway: ledger, worker and alerts",
    (
        Panel("Drift", [
            ("max(tollway_ledger_rollup_drift_nanousd)", "rollups, nano-USD"),
            ("max(tollway_ledger_journal_drift_tokens)", "journals, tokens"),
            ("max(tollway_ledger_epoch_drift_tokens)", "epochs, tokens"),
            ("max(tollway_ledger_event_drift_tokens)", "events, tokens")], "short", "stat", "All are 0.", limits=(1, 1)),
        Panel("Waiting for a person", [("max by (kind) (tollway_ledger_review_items)", "{{kind}}")], "short", "stat",
              limits=(1, 10)),
        Panel("Reserve, settle, release", [rate("tollway_ledger_operations_total", "operation, result")], "ops"),
        Panel("Open holds", [("sum(tollway_ledger_open_holds)", "holds")]),
        Panel("Group commit", quantiles("tollway_ledger_commit_seconds", "operation", "", 0.5, 0.99), "s"),
        Panel("Operations of a commit", quantiles("tollway_ledger_batch_size", "operation", "", 0.5, 0.99)),
        Panel("Waiting for a commit", [("sum by (operation) (tollway_ledger_queue)", "{{operation}}")]),
        Panel("On disk until the database is back", [
            ("sum by (instance) (tollway_ledger_spooled)", "settlements {{instance}}"),
            ("sum by (instance) (tollway_refusals_spooled)", "refusals {{instance}}")]),
        Panel("Settled from journals", [rate("tollway_reconciled_attempts_total", "source")], "ops"),
        Panel("Outbox", [rate("tollway_outbox_rows_total", "topic")], "ops"),
        Panel("Loops of the worker", [rate("tollway_worker_runs_total", "loop, result")], "ops"),
        Panel("Alerts that fired", [("sum by (type) (increase(tollway_alerts_fired_total[1h]))", "{{type}}")]),
        Panel("Deliveries", [rate("tollway_deliveries_total", "channel, outcome")], "ops"),
        Panel("Exports and meter events", [
            ("sum by (format, result) (increase(tollway_export_runs_total[1d]))", "{{format}} {{result}}"),
            ("sum by (result) (increase(tollway_meter_events_total[1d]))", "Stripe {{result}}")]),
        Panel("Batches", [
            ("sum(tollway_batches_running)", "running"), rate("tollway_batch_lines_total", "result")]),
        Panel("Idempotent requests", [rate("tollway_idempotent_requests_total", "result")], "ops"),
    ),
)  # fmt: skip

VLLM = Dashboard(
    "tollway-vllm",
    "vLLM's names: any engine that speaks them",
    (
        Panel("Requests", [
            highest("vllm:num_requests_running", "instance", ENGINE), highest("vllm:num_requests_waiting", "instance", ENGINE)]),
        Panel("KV cache", [highest("vllm:kv_cache_usage_perc", "instance", ENGINE)], "percentunit"),
        Panel("Tokens per second", [
            rate("vllm:prompt_tokens_total", "model_name", ENGINE),
            rate("vllm:generation_tokens_total", "model_name", ENGINE)]),
        Panel("Finished", [rate("vllm:request_success_total", "finished_reason", ENGINE)], "reqps"),
        Panel("Time to first token", quantiles("vllm:time_to_first_token_seconds", "model_name", ENGINE, 0.5, 0.9, 0.99), "s"),
        Panel("Between tokens", quantiles("vllm:inter_token_latency_seconds", "model_name", ENGINE, 0.5, 0.9, 0.99), "s"),
        Panel("Per token after the first",
              quantiles("vllm:request_time_per_output_token_seconds", "model_name", ENGINE, 0.5, 0.9, 0.99), "s"),
        Panel("Whole request", quantiles("vllm:e2e_request_latency_seconds", "model_name", ENGINE, 0.5, 0.9, 0.99), "s"),
        Panel("In the queue", quantiles("vllm:request_queue_time_seconds", "model_name", ENGINE, 0.5, 0.99), "s"),
        Panel("In the prompt", quantiles("vllm:request_prefill_time_seconds", "model_name", ENGINE, 0.5, 0.99), "s"),
        Panel("In the answer", quantiles("vllm:request_decode_time_seconds", "model_name", ENGINE, 0.5, 0.99), "s"),
        Panel("Prompt tokens", quantiles("vllm:request_prompt_tokens", "model_name", ENGINE, 0.5, 0.99)),
        Panel("Answer tokens", quantiles("vllm:request_generation_tokens", "model_name", ENGINE, 0.5, 0.99)),
        Panel("max_tokens asked for", quantiles("vllm:request_params_max_tokens", "model_name", ENGINE, 0.5, 0.99)),
        Panel("Prefix cache", [(
            f"sum by (model_name) (rate(vllm:prefix_cache_hits_total{{{ENGINE}}}[$__rate_interval]))"
            f" / sum by (model_name) (rate(vllm:prefix_cache_queries_total{{{ENGINE}}}[$__rate_interval]))",
            "{{model_name}}")], "percentunit"),
        Panel("Preemptions", [rate("vllm:num_preemptions_total", "instance", ENGINE)], "ops"),
    ),
    {"model_name": "vllm:num_requests_running", "instance": "vllm:num_requests_running"},
)  # fmt: skip

DASHBOARDS = {"gateway": GATEWAY, "engines": ENGINES, "ledger": LEDGER, "vllm": VLLM}


def render(board: Dashboard) -> str:
    source = {"type": "prometheus", "uid": "${datasource}"}
    chosen = [_variable(name, metric, source) for name, metric in board.variables.items()]
    document = {
        "uid": board.uid,
        "title": board.title,
        "tags": ["tollway"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}, *chosen]
        },
        "panels": _placed(board.panels, source),
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _variable(name: str, metric: str, source: dict[str, str]) -> dict[str, Any]:
    query = f"label_values({metric}, {name})"
    return {
        "name": name,
        "type": "query",
        "datasource": source,
        "definition": query,
        "query": {"query": query, "refId": "values"},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _placed(panels: Sequence[Panel], source: dict[str, str]) -> list[dict[str, Any]]:
    placed, x, y = [], 0, 0
    for number, panel in enumerate(panels, 1):
        if x + panel.width > COLUMNS:
            x, y = 0, y + HEIGHT
        steps = [{"color": "green", "value": None}]
        steps += [{"color": c, "value": v} for c, v in zip(("yellow", "red"), panel.limits, strict=False)]  # type: ignore[dict-item]  # Grafana mixes them
        placed.append(
            {
                "id": number,
                "type": panel.kind,
                "title": panel.title,
                "description": panel.about,
                "datasource": source,
                "gridPos": {"x": x, "y": y, "w": panel.width, "h": HEIGHT},
                "fieldConfig": {
                    "defaults": {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}},
                    "overrides": [],
                },
                "targets": [
                    {
                        "refId": chr(ord("A") + place),
                        "datasource": source,
                        "expr": expression,
                        "legendFormat": legend,
                    }
                    for place, (expression, legend) in enumerate(panel.queries)
                ],
            }
        )
        x += panel.width
    return placed


if __name__ == "__main__":
    for name, board in DASHBOARDS.items():
        (FOLDER / f"{name}.json").write_text(render(board), encoding="utf-8")
