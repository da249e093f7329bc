"""Pools and replicas: each line on a part that is really wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from gateway.checks import engines
from gateway.checks.types import DatabaseFacts, EngineFacts, Facts, PoolTokens, Verdict
from gateway.settings import Settings
from gateway.wire.load import EngineLoad
from tests.fakes.engine import FakeEngine
from tests.harness import Gateway

Gather = Callable[..., Awaitable[Facts]]
JUDGED = 1000


def test_no_pool_at_all() -> None:
    facts = Facts(settings=Settings())
    assert engines.replicas_are_ready(facts).verdict is Verdict.FAIL
    for check in engines.CHECKS[1:]:
        assert check(facts).verdict is Verdict.SKIP, check


async def test_a_pool_of_one_replica_and_then_of_none(
    gateway: Gateway, engine: FakeEngine, gathered: Gather
) -> None:
    await gateway.pool(engine)
    facts = await gathered()
    assert engines.replicas_are_ready(facts).found == "all of 1 ready"
    assert engines.engines_answer(facts).verdict is Verdict.PASS
    assert engines.pools_have_a_spare(facts).verdict is Verdict.WARN
    pool = facts.pools[0]["id"]
    await gateway.admin("POST", f"/pools/{pool}", {"min_replicas": 2, "max_replicas": 2})
    facts = await gathered()
    assert engines.pools_have_a_spare(facts).verdict is Verdict.PASS
    short = engines.replicas_are_ready(facts)
    assert (short.verdict, short.found) == (Verdict.WARN, "fewer than wanted in pool (1 of 2)")
    await engine.stop()
    await gateway.sql("UPDATE replica SET state = 'lost'")
    facts = await gathered()
    down = engines.replicas_are_ready(facts)
    assert (down.verdict, down.found) == (Verdict.FAIL, "none ready in pool (0 of 2)")
    silent = engines.engines_answer(facts)
    assert (silent.verdict, engine.url in silent.found) == (Verdict.FAIL, True)
    await gateway.admin("POST", f"/pools/{pool}", {"desired_state": "stopped"})
    assert engines.replicas_are_ready(await gathered()).found == "there is no running pool"


async def test_a_length_that_does_not_cover_the_requests(
    gateway: Gateway, engine: FakeEngine, gathered: Gather
) -> None:
    engine.max_model_len = 4096
    pool = await gateway.pool(engine)
    facts = await gathered()
    assert engines.lengths_cover_the_requests(facts).verdict is Verdict.SKIP, "nobody asked yet"

    def of(requests: int, prompt: int, output: int) -> Facts:
        return replace(facts, database=DatabaseFacts(tokens={pool: PoolTokens(requests, prompt, output)}))

    assert engines.lengths_cover_the_requests(of(JUDGED, 3000, 1096)).verdict is Verdict.PASS
    short = engines.lengths_cover_the_requests(of(JUDGED, 3000, 1097))
    assert (short.verdict, "4,096 tokens, the p99 of prompt and answer is 4,097" in short.found) == (
        Verdict.FAIL,
        True,
    )
    assert engines.lengths_cover_the_requests(of(99, 3000, 1097)).verdict is Verdict.SKIP


async def test_flags_of_a_pool(gateway: Gateway, gathered: Gather) -> None:
    spec = {"kind": "vllm", "model": "m", "served_names": ["m"], "gpus": [0]}
    flags = {"no-enable-prefix-caching": True, "gpu-memory-utilization": 0.99}
    pool = await gateway.admin("POST", "/pools", {"name": "fast", "spec": spec | {"flags": flags}})
    facts = await gathered()
    assert engines.prefix_caching_is_on(facts).found == "off in fast"
    assert engines.utilization_is_sound(facts).found == "fast: 0.99"
    await gateway.admin("POST", f"/pools/{pool['id']}", {"spec": spec})
    facts = await gathered()
    assert engines.prefix_caching_is_on(facts).verdict is Verdict.PASS
    assert engines.utilization_is_sound(facts).verdict is Verdict.PASS, "the engine's own 0.9"
    told = EngineFacts(
        pool["id"], "u", cache={"enable_prefix_caching": "False", "gpu_memory_utilization": "0.5"}
    )
    facts = replace(facts, engines=[told])
    assert engines.prefix_caching_is_on(facts).verdict is Verdict.WARN
    assert engines.utilization_is_sound(facts).found == "fast: 0.5"


@pytest.mark.parametrize("flag", ["high", True, "nan", ""])
async def test_a_utilization_that_is_no_number_is_shown(flag: str | bool) -> None:
    """Of a pool's flags, and of what somebody's engine says of itself."""
    spec = {"kind": "vllm", "gpus": [0], "flags": {"gpu-memory-utilization": flag}}
    pool = {"id": "p", "name": "fast", "desired_state": "running", "spec": spec}
    facts = Facts(settings=Settings(), pools=[pool])
    assert (engines.utilization_is_sound(facts).verdict, engines.utilization_is_sound(facts).found) == (
        Verdict.WARN,
        f"fast: {flag}",
    )
    told = [EngineFacts("p", "u", cache={"gpu_memory_utilization": str(flag)})]
    facts = Facts(settings=Settings(), pools=[pool | {"spec": spec | {"gpus": []}}], engines=told)
    assert engines.utilization_is_sound(facts).found == f"fast: {flag}"


def test_queues_and_pages() -> None:
    facts = Facts(settings=Settings())

    def with_figures(waiting: int, usage: float) -> Verdict:
        load = EngineLoad(None, 1, waiting, usage)
        return engines.engines_keep_up(replace(facts, engines=[EngineFacts("p", "u", load=load)])).verdict

    assert with_figures(30, 0.95) is Verdict.PASS
    assert with_figures(31, 0.5) is Verdict.WARN
    assert with_figures(0, 0.96) is Verdict.WARN
