"""Counters, gauges and histograms of one engine, in vLLM's names where the meaning is the same.

Each API process counts its own requests and leaves a snapshot in the run directory every second; the process
that answers a scrape adds the others' snapshots to its own figures, so `/metrics` is the same whoever answers.
A process that is restarted goes on from its predecessor's snapshot. Figures of the core come from `LoadStats`
and are the same in every process. Every metric is declared in the tables below.
"""

from __future__ import annotations

import os
import sys
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from engine.messages import CoreReady, LoadStats

_LATENCY_S = (
    *(0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08),
    *(0.1, 0.15, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_REQUEST_S = (0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0,
              60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0)  # fmt: skip
_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000)
_SMALL = (1, 2, 5, 10, 20)

COUNTERS: Mapping[str, str] = {
    "vllm:prompt_tokens": "Prompt tokens of requests that produced their first token.",
    "vllm:generation_tokens": "Tokens reported to callers.",
    "vllm:request_success": "Finished sequences, by finish reason.",
    "engine_overrun_tokens": "Tokens computed after the end of an answer; never billed.",
    "engine_client_disconnects": "Requests whose caller went away before the end.",
    "engine_slow_readers": "Streams that ended because too much of them waited for their caller.",
    "engine_internal_errors": "Exceptions that became an answer with status 500.",
    "engine_journal_errors": "Usage records, or snapshots of these figures, that could not be written.",
    "engine_core_losses": "Core processes that ended while this process was serving.",
    "engine_late_outputs": "Outputs of the core for requests that had already ended.",
}
HISTOGRAMS: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "vllm:time_to_first_token_seconds": ("Arrival to first token.", _LATENCY_S),
    "vllm:inter_token_latency_seconds": ("Between two tokens of a sequence.", _LATENCY_S),
    "vllm:request_time_per_output_token_seconds": ("Mean time per token after the first.", _LATENCY_S),
    "vllm:e2e_request_latency_seconds": ("Arrival to last token.", _REQUEST_S),
    "vllm:request_queue_time_seconds": ("Arrival in the core to the first step.", _REQUEST_S),
    "vllm:request_inference_time_seconds": ("First step to last token.", _REQUEST_S),
    "vllm:request_prefill_time_seconds": ("First step to first token.", _REQUEST_S),
    "vllm:request_decode_time_seconds": ("First token to last token.", _REQUEST_S),
    "vllm:request_prompt_tokens": ("Prompt tokens of a request.", _TOKENS),
    "vllm:request_generation_tokens": ("Tokens of a finished sequence.", _TOKENS),
    "vllm:request_params_n": ("The n of requests.", _SMALL),
    "vllm:request_params_max_tokens": ("The max_tokens of requests.", _TOKENS),
}
ALIASES: Mapping[str, str] = {"vllm:time_per_output_token_seconds": "vllm:inter_token_latency_seconds"}
"""Names that older dashboards use."""

CORE_GAUGES: Mapping[str, tuple[str, str]] = {
    "vllm:num_requests_running": ("num_running", "Sequences that hold a row of the batch."),
    "vllm:num_requests_waiting": ("num_waiting", "Sequences that wait for admission."),
    "vllm:kv_cache_usage_perc": ("kv_usage", "Share of KV pages held by running sequences, 0..1."),
    "vllm:gpu_cache_usage_perc": ("kv_usage", "Older name of vllm:kv_cache_usage_perc."),
    "engine_waiting_tokens": ("num_waiting_tokens", "Prompt tokens that wait for admission."),
    "engine_batch_tokens": ("batch_tokens", "Tokens of the last step."),
    "engine_batch_rows": ("batch_rows", "Sequences in the last step."),
    "engine_batch_prompt_tokens": ("batch_prompt_tokens", "Tokens of the last step that prompts had."),
    "engine_predicted_queue_delay_seconds": ("predicted_queue_delay_s", "Expected wait of a new request."),
    "engine_predicted_ttft_seconds": ("predicted_ttft_s", "Expected time to a new request's first token."),
    "engine_sustainable_requests_per_second": (
        "sustainable_rps",
        "Requests of the usual kind that can be answered all the time; 0: not known yet.",
    ),
    "engine_fairness_ids": ("num_fairness_ids", "Fairness ids that live or still owe, in each class."),
    "engine_fairness_spread_tokens": (
        "fairness_spread",
        "Virtual tokens between the most and the least served of the ids that wait.",
    ),
    "engine_page_waste_ratio": ("page_waste", "Share of held page slots without a token, 0..1."),
}
CORE_COUNTERS: Mapping[str, tuple[str, str]] = {
    "vllm:prefix_cache_queries": ("prefix_queries", "Prompt tokens looked up in the prefix cache."),
    "vllm:prefix_cache_hits": ("prefix_hits", "Prompt tokens found in the prefix cache."),
    "vllm:num_preemptions": ("num_preemptions", "Sequences preempted."),
    "engine_steps": ("steps", "Steps of the core."),
    "engine_busy_seconds": ("busy_s", "Time in steps."),
    "engine_graph_hits": ("graph_hits", "CUDA graphs replayed; none on a CPU."),
    "engine_graph_misses": ("graph_misses", "Parts of steps that had no graph and were launched eagerly."),
    "engine_requests_refused": ("num_refused", "Sequences refused as overload."),
    "engine_pages_offloaded": ("num_pages_offloaded", "KV pages copied to host memory."),
    "engine_pages_restored": ("num_pages_restored", "KV pages copied back from it."),
}

READY_GAUGES: Mapping[str, tuple[str, str]] = {
    "engine_startup_seconds": ("startup_s", "From the start of the core process to ready."),
    "engine_warm_up_seconds": (
        "warm_up_s",
        "Of it: trying the largest step, compiling kernels, capturing graphs.",
    ),
}


class Distribution(msgspec.Struct):
    """Counts per bucket (the last one is unbounded) and the sum of all values."""

    counts: list[int]
    total: float = 0.0


class Snapshot(msgspec.Struct):
    """One process's own figures. Counter keys are `name` or `name|label=value`."""

    counters: dict[str, float] = {}
    histograms: dict[str, Distribution] = {}


class Metrics:
    """The figures of this process, and of its siblings through their snapshots in `directory`."""

    def __init__(self, directory: Path, worker: int, model_name: str) -> None:
        self._directory = directory
        self._own_path = directory / f"metrics-{worker}.msgpack"
        self._labels = f'model_name="{_escaped(model_name)}",engine="0"'
        self._own = _load(self._own_path)
        self._written: bytes | None = None
        for name, (_, buckets) in HISTOGRAMS.items():
            self._own.histograms.setdefault(name, Distribution([0] * (len(buckets) + 1)))

    def count(self, name: str, amount: float = 1, label: str = "") -> None:
        assert name in COUNTERS, name
        key = f"{name}|{label}" if label else name
        self._own.counters[key] = self._own.counters.get(key, 0) + amount

    def observe(self, name: str, value: float, times: int = 1) -> None:
        distribution = self._own.histograms[name]
        distribution.counts[bisect_left(HISTOGRAMS[name][1], value)] += times
        distribution.total += value * times

    def save(self) -> None:
        """Leave the snapshot for siblings, if it changed."""
        encoded = msgspec.msgpack.encode(self._own)
        if encoded == self._written:
            return
        partial = self._own_path.with_suffix(f".{os.getpid()}")
        partial.write_bytes(encoded)
        partial.replace(self._own_path)
        self._written = encoded

    def render(self, load: LoadStats, ready: CoreReady | None) -> str:
        """The text exposition of the whole engine."""
        merged = self._merged()
        lines = [*self._counter_lines(merged, load), *self._gauge_lines(load, ready)]
        names = {**{name: name for name in HISTOGRAMS}, **ALIASES}
        for name, source in names.items():
            lines += self._histogram_lines(name, source, merged.histograms[source])
        return "\n".join(lines) + "\n"

    def _merged(self) -> Snapshot:
        merged = msgspec.msgpack.decode(msgspec.msgpack.encode(self._own), type=Snapshot)
        for path in sorted(self._directory.glob("metrics-*.msgpack")):
            if path == self._own_path:
                continue
            sibling = _load(path)
            for key, value in sibling.counters.items():
                merged.counters[key] = merged.counters.get(key, 0) + value
            for name, other in sibling.histograms.items():
                mine = merged.histograms[name]
                mine.counts = [a + b for a, b in zip(mine.counts, other.counts, strict=True)]
                mine.total += other.total
        return merged

    def _counter_lines(self, merged: Snapshot, load: LoadStats) -> Iterator[str]:
        for name, text in COUNTERS.items():
            yield from (f"# HELP {name}_total {text}", f"# TYPE {name}_total counter")
            series = {key: v for key, v in merged.counters.items() if key.split("|")[0] == name} or {name: 0}
            for key, value in sorted(series.items()):
                _, _, label = key.partition("|")
                extra = "," + '{}="{}"'.format(*label.split("=", 1)) if label else ""
                yield f"{name}_total{{{self._labels}{extra}}} {value:.17g}"
        for name, (attribute, text) in CORE_COUNTERS.items():
            yield from (f"# HELP {name}_total {text}", f"# TYPE {name}_total counter")
            yield f"{name}_total{{{self._labels}}} {getattr(load, attribute)}"

    def _gauge_lines(self, load: LoadStats, ready: CoreReady | None) -> Iterator[str]:
        for name, (attribute, text) in CORE_GAUGES.items():
            yield from (f"# HELP {name} {text}", f"# TYPE {name} gauge")
            yield f"{name}{{{self._labels}}} {getattr(load, attribute):.17g}"
        yield from (
            "# HELP engine_step_seconds Duration of the last step.",
            "# TYPE engine_step_seconds gauge",
        )
        yield f"engine_step_seconds{{{self._labels}}} {load.step_ms / 1000:.17g}"
        if ready is not None:
            for name, (attribute, text) in READY_GAUGES.items():
                yield from (f"# HELP {name} {text}", f"# TYPE {name} gauge")
                yield f"{name}{{{self._labels}}} {getattr(ready, attribute):.17g}"
            yield "# HELP vllm:cache_config_info The page pool."
            yield "# TYPE vllm:cache_config_info gauge"
            pool = f'block_size="{ready.block_size}",num_gpu_blocks="{ready.num_blocks}"'
            yield f"vllm:cache_config_info{{{self._labels},{pool}}} 1"

    def _histogram_lines(self, name: str, source: str, values: Distribution) -> Iterator[str]:
        text, buckets = HISTOGRAMS[source]
        yield from (f"# HELP {name} {text}", f"# TYPE {name} histogram")
        below = 0
        for edge, count in zip(buckets, values.counts, strict=False):
            below += count
            yield f'{name}_bucket{{{self._labels},le="{float(edge)}"}} {below}'
        total = sum(values.counts)
        yield f'{name}_bucket{{{self._labels},le="+Inf"}} {total}'
        yield f"{name}_sum{{{self._labels}}} {values.total:.17g}"
        yield f"{name}_count{{{self._labels}}} {total}"


def table() -> str:
    """Every metric in Markdown, by kind."""
    step = {"engine_step_seconds": "Duration of the last step."}
    pool = {"vllm:cache_config_info": "The page pool: labels `block_size`, `num_gpu_blocks`."}
    gauges = {name: text for name, (_, text) in {**CORE_GAUGES, **READY_GAUGES}.items()} | step | pool
    counters = {**COUNTERS} | {name: text for name, (_, text) in CORE_COUNTERS.items()}
    histograms = {name: text for name, (text, _) in HISTOGRAMS.items()}
    histograms |= {name: f"Older name of {source}." for name, source in ALIASES.items()}
    kinds = {"gauge": gauges, "counter": counters, "histogram": histograms}
    rows = [
        f"| `{name}{'_total' if kind == 'counter' else ''}` | {kind} | {text} |"
        for kind, names in kinds.items()
        for name, text in names.items()
    ]
    return "\n".join(["| metric | kind | |", "|---|---|---|", *rows])


def _load(path: Path) -> Snapshot:
    if not path.is_file():
        return Snapshot()
    return msgspec.msgpack.decode(path.read_bytes(), type=Snapshot)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n")
