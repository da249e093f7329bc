"""Pools and replicas: ready, spared, and shaped for the requests that come. Knows what the engines said of themselves."""

from __future__ import annotations

from collections.abc import Iterable
from math import nan

from gateway.checks.say import failed, first_few, passed, skipped, warned
from gateway.checks.types import Check, EngineFacts, Facts, Finding, Json

__all__ = ["CHECKS"]

_UTILIZATION = (0.7, 0.95)
_DEFAULT_UTILIZATION = 0.9
_KV_USAGE_MAX = 0.95
_WAITING_MAX = 30
_REQUESTS_MIN = 100
"""Fewer say nothing of a 99th percentile."""


def replicas_are_ready(facts: Facts) -> Finding:
    name = "replicas"
    if not facts.running_pools:
        return failed(name, "there is no running pool", "make one: `tollway admin pools create`")
    counts = {pool["name"]: (_ready(pool), _wanted(pool)) for pool in facts.running_pools}
    down = [f"{pool} (0 of {wanted})" for pool, (ready, wanted) in counts.items() if wanted and not ready]
    if down:
        return failed(
            name,
            f"none ready in {first_few(down)}",
            "`tollway admin replicas list` shows why they do not start",
        )
    short = [f"{pool} ({ready} of {wanted})" for pool, (ready, wanted) in counts.items() if ready < wanted]
    if short:
        return warned(
            name, f"fewer than wanted in {first_few(short)}", "`tollway admin replicas list` shows why"
        )
    return passed(name, f"all of {sum(wanted for _, wanted in counts.values())} ready")


def pools_have_a_spare(facts: Facts) -> Finding:
    name = "headroom"
    if not facts.running_pools:
        return skipped(name, "there is no running pool")
    single = [str(pool["name"]) for pool in facts.running_pools if _wanted(pool) < 2]
    if single:
        return warned(
            name,
            f"one replica alone in {first_few(single)}",
            "`tollway admin pools scale POOL --min 2`, or as many as `tollway plan` says: load and one spare",
        )
    return passed(name, f"two replicas or more in each of {len(facts.running_pools)} pools")


def engines_answer(facts: Facts) -> Finding:
    name = "engines"
    ours = [engine for engine in facts.engines if _spec(facts, engine).get("kind") == "tollway"]
    if not ours:
        return skipped(name, "no engine of ours has an address")
    silent = [engine.url for engine in ours if engine.status is None]
    if silent:
        return failed(
            name,
            f"no answer with the internal key from {first_few(silent)}",
            "is it running, reachable from here, and started with TOLLWAY_UPSTREAM__INTERNAL_KEY?",
        )
    return passed(name, f"{len(ours)} know the internal key")


def lengths_cover_the_requests(facts: Facts) -> Finding:
    """`max_model_len` ≥ the 99th percentiles of prompt and answer together."""
    name = "max-model-len"
    judged, short = 0, []
    for engine in facts.engines:
        tokens = facts.database.tokens.get(engine.pool_id)
        length = (engine.status or {}).get("max_model_len")
        if tokens is None or length is None or tokens.requests < _REQUESTS_MIN:
            continue
        judged += 1
        needed = tokens.prompt_p99 + tokens.output_p99
        if length < needed:
            short.append(
                f"{_pool_name(facts, engine)}: {length:,} tokens, the p99 of prompt and answer is {needed:,}"
            )
    if short:
        return failed(
            name,
            first_few(sorted(set(short))),
            "raise --max-model-len in the pool's flags: long requests are refused",
        )
    if not judged:
        return skipped(
            name, f"fewer than {_REQUESTS_MIN} requests in seven days, or no engine says its length"
        )
    return passed(name, f"covers the p99 of prompt and answer on {judged} engines")


def prefix_caching_is_on(facts: Facts) -> Finding:
    name = "prefix caching"
    flagged = [
        str(pool["name"])
        for pool in facts.running_pools
        if "no-enable-prefix-caching" in pool["spec"]["flags"]
    ]
    told = [
        _pool_name(facts, engine)
        for engine in facts.engines
        if engine.cache.get("enable_prefix_caching", "").lower() == "false"
    ]
    off = sorted({*flagged, *told})
    if off:
        return warned(
            name,
            f"off in {first_few(off)}",
            "leave --no-enable-prefix-caching out: shared prompts are computed anew",
        )
    if not facts.running_pools:
        return skipped(name, "there is no running pool")
    return passed(name, "on wherever it is known")


def utilization_is_sound(facts: Facts) -> Finding:
    name = "GPU memory utilisation"
    values = dict(_utilizations(facts))
    if not values:
        return skipped(name, "no pool of ours has GPUs")
    low, high = _UTILIZATION
    odd = [f"{pool}: {value}" for pool, value in values.items() if not low <= _number(value) <= high]
    if odd:
        return warned(
            name,
            first_few(odd),
            f"--gpu-memory-utilization between {low:g} and {high:g}: less wastes the card, more runs out of it",
        )
    return passed(name, f"between {low:g} and {high:g} in {len(values)} pools")


def engines_keep_up(facts: Facts) -> Finding:
    name = "load"
    loads = [(engine.url, engine.load) for engine in facts.engines if engine.load is not None]
    if not loads:
        return skipped(name, "no engine shows its metrics from here")
    full = [url for url, load in loads if load.waiting > _WAITING_MAX or load.kv_usage > _KV_USAGE_MAX]
    if full:
        return warned(
            name,
            f"more than {_WAITING_MAX} waiting, or more than {_KV_USAGE_MAX:.0%} of the KV pages used: {first_few(full)}",
            "scale the pool: `tollway admin pools scale`",
        )
    return passed(name, f"{len(loads)} engines: short queues, free KV pages")


def _utilizations(facts: Facts) -> Iterable[tuple[str, object]]:
    """As somebody wrote them: a flag may be anything."""
    for pool in facts.running_pools:
        spec = pool["spec"]
        if spec["kind"] in ("tollway", "vllm") and spec["gpus"]:
            yield str(pool["name"]), spec["flags"].get("gpu-memory-utilization", _DEFAULT_UTILIZATION)
    for engine in facts.engines:
        told = engine.cache.get("gpu_memory_utilization")
        if told is not None:
            yield _pool_name(facts, engine), told


def _number(value: object) -> float:
    """Not a number, for what is none: then it is within no bounds."""
    try:
        return float(str(value))
    except ValueError:
        return nan


def _ready(pool: Json) -> int:
    return sum(replica["state"] == "ready" for replica in pool["replicas"])


def _wanted(pool: Json) -> int:
    spec = pool["spec"]
    return len(spec["urls"]) if spec["kind"] == "external" else int(spec["min_replicas"])


def _spec(facts: Facts, engine: EngineFacts) -> Json:
    return next((pool["spec"] for pool in facts.pools if pool["id"] == engine.pool_id), {})


def _pool_name(facts: Facts, engine: EngineFacts) -> str:
    return next((str(pool["name"]) for pool in facts.pools if pool["id"] == engine.pool_id), engine.pool_id)


CHECKS: tuple[Check, ...] = (
    replicas_are_ready,
    pools_have_a_spare,
    engines_answer,
    lengths_cover_the_requests,
    prefix_caching_is_on,
    utilization_is_sound,
    engines_keep_up,
)
