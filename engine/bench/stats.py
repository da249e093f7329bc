"""From the times of requests to the figures of a serving benchmark. Pure; knows no HTTP.

Definitions are those of `vllm bench serve`: TTFT from sending to the first token; ITL between two chunks; TPOT
(E2EL - TTFT) / (output tokens - 1); E2EL from sending to the last token; throughputs over the whole run. All in
milliseconds but for the throughputs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

PERCENTILES = (50, 95, 99)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request, in seconds of one clock."""

    index: int
    sent_s: float
    chunk_times_s: tuple[float, ...] = ()
    """When each chunk with text or tokens arrived."""
    prompt_tokens: int = 0
    output_tokens: int = 0
    error: str | None = None
    cached_tokens: int = 0
    """Of the prompt's, those that the server says it had in its prefix cache."""

    @property
    def ttft_ms(self) -> float:
        return (self.chunk_times_s[0] - self.sent_s) * 1e3

    @property
    def e2el_ms(self) -> float:
        return (self.chunk_times_s[-1] - self.sent_s) * 1e3

    @property
    def tpot_ms(self) -> float | None:
        """None for a single token."""
        if self.output_tokens < 2:
            return None
        return (self.e2el_ms - self.ttft_ms) / (self.output_tokens - 1)

    @property
    def itl_ms(self) -> list[float]:
        times = self.chunk_times_s
        return [(after - before) * 1e3 for before, after in itertools.pairwise(times)]


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one run."""

    completed: int
    failed: int
    duration_s: float
    output_tokens_per_s: float
    total_tokens_per_s: float
    requests_per_s: float
    goodput_per_s: float
    """Requests a second that kept every objective given."""
    latencies_ms: dict[str, dict[str, float]]
    """ttft, tpot, itl, e2el → mean, p50, p95, p99."""
    first_error: str | None
    cached_prompt_share: float
    """Of all prompt tokens, those from the server's prefix cache: more than the shared prefix means a warm run."""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Objectives:
    """Limits that a good request keeps; None: any value is good."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2el_ms: float | None = None

    def kept_by(self, outcome: Outcome) -> bool:
        pairs = (
            (outcome.ttft_ms, self.ttft_ms),
            (outcome.tpot_ms, self.tpot_ms),
            (outcome.e2el_ms, self.e2el_ms),
        )
        return all(limit is None or value is None or value <= limit for value, limit in pairs)


def summarise(outcomes: Sequence[Outcome], objectives: Objectives, num_warm_up: int = 0) -> Report:
    """`num_warm_up`: the requests sent first that count for the throughput but not for the latencies."""
    good = sorted((o for o in outcomes if o.error is None), key=lambda o: o.sent_s)
    failed = [o for o in outcomes if o.error is not None]
    start = min((o.sent_s for o in outcomes), default=0.0)
    end = max((o.chunk_times_s[-1] for o in good), default=start)
    duration_s = max(end - start, 1e-9)
    output = sum(o.output_tokens for o in good)
    prompt = sum(o.prompt_tokens for o in good)
    steady = good[num_warm_up:]
    return Report(
        completed=len(good),
        failed=len(failed),
        duration_s=duration_s,
        output_tokens_per_s=output / duration_s,
        total_tokens_per_s=(output + prompt) / duration_s,
        requests_per_s=len(good) / duration_s,
        goodput_per_s=sum(objectives.kept_by(o) for o in good) / duration_s,
        latencies_ms={
            "ttft": _spread([o.ttft_ms for o in steady]),
            "tpot": _spread([o.tpot_ms for o in steady if o.tpot_ms is not None]),
            "itl": _spread([gap for o in steady for gap in o.itl_ms]),
            "e2el": _spread([o.e2el_ms for o in steady]),
        },
        first_error=failed[0].error if failed else None,
        cached_prompt_share=sum(o.cached_tokens for o in good) / max(prompt, 1),
    )


def percentile(values: Sequence[float], share: float) -> float:
    """Linear interpolation between the two nearest ranks; `values` sorted and not empty."""
    at = (len(values) - 1) * share / 100
    low, high = math.floor(at), math.ceil(at)
    return values[low] + (values[high] - values[low]) * (at - low)


def _spread(values: list[float]) -> dict[str, float]:
    if not values:
        return {}
    values.sort()
    figures = {"mean": sum(values) / len(values)}
    return figures | {f"p{share}": percentile(values, share) for share in PERCENTILES}
