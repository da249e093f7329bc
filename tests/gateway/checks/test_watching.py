"""Names, prices and who is told: each line on a part that is really wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from gateway.checks import watching
from gateway.checks.types import Facts, Verdict
from gateway.settings import Settings
from tests.fakes.engine import FakeEngine
from tests.harness import Gateway

Gather = Callable[..., Awaitable[Facts]]


def test_a_bare_installation() -> None:
    facts = Facts(settings=Settings())
    found = {check.__name__: check(facts).verdict for check in watching.CHECKS}
    assert found == {
        "routes_lead_somewhere": Verdict.FAIL,
        "routes_cost_something": Verdict.SKIP,
        "objectives_exist": Verdict.WARN,
        "somebody_is_told": Verdict.WARN,
        "endpoints_work": Verdict.PASS,
        "rules_are_loaded": Verdict.SKIP,
    }


async def test_routes_and_prices(gateway: Gateway, engine: FakeEngine, gathered: Gather) -> None:
    nothing = {f"{part}_nanousd_per_token": "0" for part in ("input", "cached_input", "output")}
    await gateway.admin("POST", "/prices", {"sku": "sku-1", **nothing})
    await gateway.serve(engine)
    facts = await gathered()
    assert watching.routes_lead_somewhere(facts).verdict is Verdict.PASS
    free = watching.routes_cost_something(facts)
    assert (free.verdict, free.found) == (Verdict.WARN, "nothing is charged for sku-1")
    await gateway.admin("POST", "/prices", {"sku": "sku-1", **nothing, "output_nanousd_per_token": "5"})
    await gateway.sql("UPDATE replica SET state = 'lost'")
    facts = await gathered()
    assert watching.routes_cost_something(facts).verdict is Verdict.PASS
    dead = watching.routes_lead_somewhere(facts)
    assert (dead.verdict, dead.found) == (Verdict.FAIL, "no ready replica behind served-model")


@pytest.mark.parametrize(
    "gateway_changes",
    [{"security": {"key_pepper": "pepper-0123456789abc", "webhook_allowed_cidrs": ["127.0.0.0/8"]}}],
)
async def test_objectives_and_endpoints(gateway: Gateway, gathered: Gather) -> None:
    endpoint = {
        "name": "ops",
        "url": "http://127.0.0.1:9/hook",
        "event_types": ["replica.down", "ledger.drift"],
    }
    made = await gateway.admin("POST", "/webhook_endpoints", endpoint)
    facts = await gathered()
    for objective in facts.objectives:
        await gateway.admin("DELETE", f"/objectives/{objective['id']}")
    assert watching.objectives_exist(await gathered()).verdict is Verdict.WARN
    assert watching.somebody_is_told(facts).found == "nobody is told of slo.burn_rate.firing"
    every = [*endpoint["event_types"], "slo.burn_rate.firing"]
    await gateway.admin("POST", f"/webhook_endpoints/{made['id']}", {"event_types": every})
    assert watching.somebody_is_told(await gathered()).verdict is Verdict.PASS
    await gateway.sql("UPDATE webhook_endpoint SET disabled_at = now(), disabled_reason = 'gone'")
    facts = await gathered()
    assert watching.endpoints_work(facts).found == "disabled: ops"
    assert watching.somebody_is_told(facts).verdict is Verdict.WARN


def test_rules_of_prometheus() -> None:
    facts = Facts(settings=Settings())

    def of(*rules: dict[str, Any]) -> Verdict:
        return watching.rules_are_loaded(
            replace(facts, rule_groups=[{"name": "g", "rules": list(rules)}])
        ).verdict

    alert = {"name": "ReplicaDown", "type": "alerting", "health": "ok"}
    assert of(alert) is Verdict.PASS
    assert of({"name": "sum", "type": "recording", "health": "ok"}) is Verdict.WARN
    assert of(alert, alert | {"health": "err"}) is Verdict.FAIL
