"""Names, prices and who is told: what makes traffic billable and trouble heard."""

from __future__ import annotations

from decimal import Decimal

from gateway.checks.say import failed, first_few, passed, skipped, warned
from gateway.checks.types import Check, Facts, Finding

__all__ = ["CHECKS"]

_MUST_BE_HEARD = ("slo.burn_rate.firing", "replica.down", "ledger.drift")


def routes_lead_somewhere(facts: Facts) -> Finding:
    name = "routes"
    if not facts.routes:
        return failed(name, "there is none: no model can be called", "`tollway admin routes create`")
    ready = {
        pool["id"]
        for pool in facts.running_pools
        if any(replica["state"] == "ready" for replica in pool["replicas"])
    }
    dead = [str(route["served_model"]) for route in facts.routes if route["pool_id"] not in ready]
    if dead:
        return failed(
            name,
            f"no ready replica behind {first_few(sorted(set(dead)))}",
            "start the pool, or move the route",
        )
    return passed(name, f"{len(facts.routes)}, each to a ready replica")


def routes_cost_something(facts: Facts) -> Finding:
    """A published route has prices: the schema sees to that. They may be nothing by mistake."""
    name = "prices"
    if not facts.routes:
        return skipped(name, "there is no route")
    skus = {str(route["sku"]) for route in facts.routes}
    charged = {
        price["sku"]
        for price in facts.prices
        if price["valid_until"] is None and Decimal(price["nanousd_per_token"]) > 0
    }
    free = sorted(skus - charged)
    if free:
        advice = "`tollway admin prices create`, unless they shall be free"
        return warned(name, f"nothing is charged for {first_few(free)}", advice)
    return passed(name, f"for all of {len(skus)} SKUs")


def objectives_exist(facts: Facts) -> Finding:
    name = "objectives"
    if not facts.objectives:
        return warned(
            name,
            "none: nothing counts as too slow",
            "make some in the console or by POST /objectives: docs/slo.md",
        )
    return passed(name, f"{len(facts.objectives)}")


def somebody_is_told(facts: Facts) -> Finding:
    name = "alerts"
    own = [e for e in facts.endpoints if e["project_id"] is None and e["status"] != "disabled"]
    heard = {kind for endpoint in own for kind in endpoint["event_types"]}
    missing = [kind for kind in _MUST_BE_HEARD if kind not in heard]
    if missing:
        return warned(
            name,
            f"nobody is told of {first_few(missing)}",
            "add a webhook endpoint (Slack, PagerDuty, …): docs/webhooks.md",
        )
    return passed(name, f"{len(own)} endpoints of the operator")


def endpoints_work(facts: Facts) -> Finding:
    name = "webhook endpoints"
    dead = [str(endpoint["name"]) for endpoint in facts.endpoints if endpoint["status"] == "disabled"]
    if dead:
        return warned(
            name,
            f"disabled: {first_few(dead)}",
            "put their receiver right, then enable and test them: docs/webhooks.md",
        )
    return passed(name, f"{len(facts.endpoints)}, none disabled")


def rules_are_loaded(facts: Facts) -> Finding:
    name = "Prometheus rules"
    if facts.rule_groups is None:
        return skipped(name, "not asked", "--prometheus URL")
    alerting = [
        rule
        for group in facts.rule_groups
        for rule in group.get("rules", ())
        if rule.get("type") == "alerting"
    ]
    sick = [str(rule["name"]) for rule in alerting if rule.get("health") == "err"]
    if sick:
        return failed(
            name,
            f"with errors: {first_few(sick)}",
            "`promtool check rules`; Prometheus shows the error at /rules",
        )
    if not alerting:
        return warned(name, "no alerting rule is loaded", "load the rules for Tollway's metrics")
    return passed(name, f"{len(alerting)} alerts loaded")


CHECKS: tuple[Check, ...] = (
    routes_lead_somewhere,
    routes_cost_something,
    objectives_exist,
    somebody_is_told,
    endpoints_work,
    rules_are_loaded,
)
