"""The gateway and its books: ready, on the right schema, with room for connections, and nothing left to review."""

from __future__ import annotations

from gateway.checks.say import failed, first_few, passed, skipped, warned
from gateway.checks.types import Check, Facts, Finding

__all__ = ["CHECKS"]

_CONNECTIONS_PER_GATEWAY = 7
"""Beside its pool; docs/database.md adds them up."""
_CONNECTIONS_BESIDE = 14 + 2 + 2
"""A worker's, a pool supervisor's and a command's."""


def gateway_is_ready(facts: Facts) -> Finding:
    name = "gateway"
    if facts.not_ready is not None:
        return failed(name, f"not ready: {facts.not_ready}", "look at its log; it takes no requests")
    return passed(name, "ready")


def there_are_two_gateways(facts: Facts) -> Finding:
    name = "gateway replicas"
    if facts.database.problem is not None:
        return skipped(name, "the database did not say")
    if facts.database.gateways < 2:
        return warned(
            name,
            f"{facts.database.gateways} running",
            "run two or more behind a balancer: a restart is an outage else",
        )
    return passed(name, f"{facts.database.gateways} running")


def schema_is_ours(facts: Facts) -> Finding:
    name = "database"
    if facts.database.problem is not None:
        return failed(name, facts.database.problem, "docs/database.md; then `tollway migrate`")
    return passed(name, "reachable, its schema is this version's")


def events_cannot_be_rewritten(facts: Facts) -> Finding:
    name = "ledger rights"
    if facts.database.problem is not None:
        return skipped(name, "the database did not say")
    if facts.database.may_rewrite_events:
        return failed(
            name,
            "the application's role may change or delete usage events",
            "give it no more than the role tollway_app has: docs/database.md",
        )
    return passed(name, "the application can add usage events and change none")


def connections_suffice(facts: Facts) -> Finding:
    name, database = "database connections", facts.database
    if database.problem is not None:
        return skipped(name, "the database did not say")
    each = facts.settings.database.pool_size + _CONNECTIONS_PER_GATEWAY
    wanted = max(database.gateways, 1) * each + _CONNECTIONS_BESIDE
    if wanted > database.max_connections:
        return failed(
            name,
            f"{wanted} may be opened, the server takes {database.max_connections}",
            "raise max_connections, lower TOLLWAY_DATABASE__POOL_SIZE, or put PgBouncer between",
        )
    return passed(name, f"{wanted} of {database.max_connections} may be opened")


def nothing_waits_for_review(facts: Facts) -> Finding:
    name = "ledger review"
    if facts.database.problem is not None:
        return skipped(name, "the database did not say")
    if facts.database.open_review_items:
        return warned(
            name, f"{facts.database.open_review_items} items wait", "`tollway review list`, then resolve them"
        )
    return passed(name, "nothing waits")


def streams_outlive_a_rollout(facts: Facts) -> Finding:
    name, settings = "drain", facts.settings
    drain, longest = settings.server.drain_timeout_s, facts.longest_request_s
    for who, variable, wait_s in (
        ("a gateway that stops", "TOLLWAY_SERVER__DRAIN_TIMEOUT_S", drain),
        (
            "a supervisor that drains a replica",
            "TOLLWAY_POOL__DRAIN_TIMEOUT_S",
            settings.pool.drain_timeout_s,
        ),
    ):
        if wait_s < longest:
            return warned(
                name,
                f"{who} waits {wait_s:g} s, a request may take {longest:g} s",
                f"raise {variable} (and terminationGracePeriodSeconds), or lower TOLLWAY_UPSTREAM__TOTAL_TIMEOUT_S",
            )
    return passed(name, f"{drain:g} s for requests of at most {longest:g} s")


def tenants_have_limits(facts: Facts) -> Finding:
    name, limits = "limits of new projects", facts.settings.limits
    missing = [
        field
        for field in ("requests_per_minute", "tokens_per_minute", "concurrent_requests")
        if not getattr(limits, field)
    ]
    if missing:
        return warned(
            name, f"none for {first_few(missing)}", "set TOLLWAY_LIMITS__…: one project can fill every queue"
        )
    return passed(name, "requests, tokens and concurrency")


def days_are_exported(facts: Facts) -> Finding:
    name, exports = "exports", facts.settings.exports
    if exports.destination is None or not exports.formats:
        return warned(
            name,
            "closed days are not exported",
            "set TOLLWAY_EXPORTS__DESTINATION and TOLLWAY_EXPORTS__FORMATS: docs/exports.md",
        )
    return passed(name, f"{', '.join(exports.formats)} to {exports.destination.partition('?')[0]}")


CHECKS: tuple[Check, ...] = (
    gateway_is_ready,
    there_are_two_gateways,
    schema_is_ours,
    events_cannot_be_rewritten,
    connections_suffice,
    nothing_waits_for_review,
    streams_outlive_a_rollout,
    tenants_have_limits,
    days_are_exported,
)
