"""What is gathered from a real gateway, its database and its engines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gateway.admin_client import AdminCallFailed
from gateway.checks.gather import Places, _with_metrics, gather, read_workloads
from gateway.checks.types import EngineFacts, Facts, PoolTokens
from gateway.settings import DatabaseSettings
from gateway.wire.load import EngineLoad
from tests.engine.test_process import running_engine
from tests.fakes.engine import FakeEngine
from tests.gateway.asking import BODY, ask
from tests.harness import Gateway

Gather = Callable[..., Awaitable[Facts]]


async def test_a_served_installation(gateway: Gateway, engine: FakeEngine, gathered: Gather) -> None:
    tenant = await gateway.serve(engine)
    answers = await asyncio.gather(
        *(ask(gateway, tenant, {**BODY, "max_tokens": count}) for count in (1, 2, 4))
    )
    assert {status for status, _ in answers} == {200}
    events = await gateway.events(3)
    facts = await gathered()
    assert (facts.not_ready, facts.are_metrics_open) == (None, False)
    assert (facts.database.problem, facts.database.may_rewrite_events, facts.database.gateways) == (
        None,
        False,
        1,
    )
    assert facts.database.max_connections >= 20
    (pool,) = facts.pools
    prompts = max(event["prompt_uncached_tokens"] + event["prompt_cached_tokens"] for event in events)
    outputs = max(event["completion_tokens"] for event in events)
    assert facts.database.tokens == {pool["id"]: PoolTokens(3, prompts, outputs)}
    (found,) = facts.engines
    assert (found.url, found.is_open) == (engine.url, True)
    assert found.status is not None
    assert found.status["max_model_len"] == engine.max_model_len
    assert [route["sku"] for route in facts.routes] == ["sku-1"]
    assert {price["component"] for price in facts.prices} >= {"input", "cached_input", "output"}
    assert (facts.workloads, facts.rule_groups) == (None, None)
    await _without_the_admin_api(gateway)


async def _without_the_admin_api(gateway: Gateway) -> None:
    """There is nothing to check then."""
    for places, said in (
        (Places(gateway.url, "tw-wrong"), "API key"),
        (Places("http://127.0.0.1:1", "tw-wrong"), r"http://127\.0\.0\.1:1 cannot be reached"),
        (
            Places(gateway.url, gateway.admin_key, prometheus=gateway.url),
            "does not answer as Prometheus does",
        ),
    ):
        with pytest.raises(AdminCallFailed, match=said):
            await gather(gateway.settings, places)


async def test_a_real_engines_metrics(
    tmp_path: Path, gateway: Gateway, engine: FakeEngine, gathered: Gather
) -> None:
    async with running_engine(tmp_path, "--api-key", "a-key-of-callers") as real:
        await real.until_ready()
        await gateway.pool(engine)
        await gateway.sql("UPDATE replica SET url = $1", f"http://127.0.0.1:{real.port}")
        (found,) = (await gathered()).engines
    assert found.load is not None
    assert found.load.waiting == 2, "what its core tells"
    assert 0 <= found.load.kv_usage <= 1
    assert not found.is_open, "its public routes want a key"
    assert found.status is None, "the internal key is another one"


def test_ranks_of_a_server_share_no_pages() -> None:
    """Each has its own: two that are half full are not a full one."""
    gauges = {
        "num_requests_running": (3, 4),
        "num_requests_waiting": (5, 6),
        "kv_cache_usage_perc": (0.5, 0.6),
    }
    page = "".join(
        f'vllm:{name}{{engine="{rank}"}} {value}\n'
        for name, values in gauges.items()
        for rank, value in enumerate(values)
    )
    found = _with_metrics(EngineFacts("p", "u"), page + 'vllm:cache_config_info{num_gpu_blocks="9"} 1.0\n')
    assert found.load == EngineLoad(None, 7, 11, 0.6)
    assert found.cache == {"num_gpu_blocks": "9"}
    assert _with_metrics(EngineFacts("p", "u"), "<html>").load is None


async def test_parts_that_are_down_are_facts(gateway: Gateway, engine: FakeEngine) -> None:
    await gateway.pool(engine)
    await engine.stop()
    (row,) = await gateway.sql("SELECT version_num FROM alembic_version")
    await gateway.sql("UPDATE alembic_version SET version_num = '0001'")
    old = await gather(gateway.settings, Places(gateway.url, gateway.admin_key))
    await gateway.sql("UPDATE alembic_version SET version_num = $1", row["version_num"])
    assert old.database.problem is not None
    assert old.database.problem.startswith("the schema is 0001, this version needs ")
    gateway.app.is_draining = True
    away = DatabaseSettings(url="postgresql://nobody@127.0.0.1:1/x")
    try:
        settings = gateway.settings.model_copy(update={"database": away})
        facts = await gather(settings, Places(gateway.url, gateway.admin_key))
    finally:
        gateway.app.is_draining = False
    assert facts.not_ready == "draining"
    assert facts.database.problem is not None
    assert facts.database.problem.startswith("it cannot be used: ")
    assert [(found.status, found.is_open, found.load) for found in facts.engines] == [(None, False, None)]


def test_workloads_are_kubectls_json(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    for wrong in ("", "[]", '{"items": [{}]}'):
        path.write_text(wrong)
        with pytest.raises(AdminCallFailed, match="is no output of `kubectl get"):
            read_workloads(path)
    path.write_text('{"items": [{"spec": {"template": {}}}, {"spec": {}}]}')
    assert read_workloads(path) == [{"spec": {"template": {}}}], "Services and the like have no pods"
