"""The gateway and its books: each line on a part that is really wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from gateway.checks import service
from gateway.checks.types import DatabaseFacts, Facts, Verdict
from gateway.settings import (
    DatabaseSettings,
    ExportSettings,
    LimitSettings,
    PoolSettings,
    ServerSettings,
    Settings,
)
from tests.harness import Gateway

Gather = Callable[..., Awaitable[Facts]]


async def test_the_books_of_a_real_installation(gateway: Gateway, gathered: Gather) -> None:
    facts = await gathered()
    assert service.gateway_is_ready(facts).verdict is Verdict.PASS
    assert service.schema_is_ours(facts).verdict is Verdict.PASS
    assert service.events_cannot_be_rewritten(facts).verdict is Verdict.PASS
    assert service.nothing_waits_for_review(facts).verdict is Verdict.PASS
    alone = service.there_are_two_gateways(facts)
    assert (alone.verdict, alone.found) == (Verdict.WARN, "1 running")
    await gateway.sql(
        "INSERT INTO gateway_instance (instance_id, gateway_id) VALUES ('other', 'gw-2')",
    )
    await gateway.sql("INSERT INTO review_item (kind, subject, details) VALUES ('engine_gone', 'x', '{}')")
    await gateway.sql("GRANT UPDATE ON usage_event TO tollway_app")
    try:
        facts = await gathered()
    finally:
        await gateway.sql("REVOKE UPDATE ON usage_event FROM tollway_app")
    assert service.there_are_two_gateways(facts).verdict is Verdict.PASS
    assert service.nothing_waits_for_review(facts).found == "1 items wait"
    rights = service.events_cannot_be_rewritten(facts)
    assert (rights.verdict, "tollway_app" in rights.advice) == (Verdict.FAIL, True)


async def test_a_draining_gateway_is_not_ready(gateway: Gateway, gathered: Gather) -> None:
    gateway.app.is_draining = True
    try:
        finding = service.gateway_is_ready(await gathered())
    finally:
        gateway.app.is_draining = False
    assert (finding.verdict, finding.found) == (Verdict.FAIL, "not ready: draining")


def test_without_a_database_the_rest_is_not_judged() -> None:
    facts = Facts(settings=Settings(), database=DatabaseFacts(problem="it cannot be used: refused"))
    assert service.schema_is_ours(facts).verdict is Verdict.FAIL
    others = (
        service.there_are_two_gateways, service.events_cannot_be_rewritten, service.connections_suffice,
        service.nothing_waits_for_review,
    )  # fmt: skip
    assert {check(facts).verdict for check in others} == {Verdict.SKIP}


def test_connections_are_added_up() -> None:
    facts = Facts(settings=Settings(), database=DatabaseFacts(gateways=3, max_connections=63))
    # 3 × (8 + 7) + 14 + 2 + 2, as docs/database.md says.
    assert service.connections_suffice(facts).found == "63 of 63 may be opened"
    wide = Facts(settings=Settings(database=DatabaseSettings(pool_size=9)), database=facts.database)
    finding = service.connections_suffice(wide)
    assert (finding.verdict, finding.found) == (Verdict.FAIL, "66 may be opened, the server takes 63")


def test_settings_that_cut_streams_or_leave_limits_out() -> None:
    facts = Facts(settings=Settings())
    assert service.streams_outlive_a_rollout(facts).verdict is Verdict.PASS, "our own defaults"
    hasty = Settings(server=ServerSettings(drain_timeout_s=600))
    finding = service.streams_outlive_a_rollout(Facts(settings=hasty))
    assert (finding.verdict, finding.found) == (
        Verdict.WARN,
        "a gateway that stops waits 600 s, a request may take 900 s",
    )
    supervisor = Settings(pool=PoolSettings(drain_timeout_s=899))
    finding = service.streams_outlive_a_rollout(Facts(settings=supervisor))
    assert (finding.verdict, "TOLLWAY_POOL__DRAIN_TIMEOUT_S" in finding.advice) == (Verdict.WARN, True)
    pools = [{"traffic": {"total_timeout_s": own}} for own in (None, 1000.0)]
    enough = Settings(server=ServerSettings(drain_timeout_s=1000))
    assert service.streams_outlive_a_rollout(Facts(settings=enough, pools=pools)).verdict is Verdict.PASS
    short = Settings(server=ServerSettings(drain_timeout_s=999))
    assert service.streams_outlive_a_rollout(Facts(settings=short, pools=pools)).verdict is Verdict.WARN
    assert service.tenants_have_limits(facts).verdict is Verdict.PASS
    open_ = Settings(limits=LimitSettings(tokens_per_minute=0))
    finding = service.tenants_have_limits(Facts(settings=open_))
    assert (finding.verdict, finding.found) == (Verdict.WARN, "none for tokens_per_minute")


def test_exports(tmp_path: Path) -> None:
    assert service.days_are_exported(Facts(settings=Settings())).verdict is Verdict.WARN
    exports = ExportSettings(destination=f"s3://bucket/x?staging={tmp_path}", formats=("csv", "focus"))
    finding = service.days_are_exported(
        replace(Facts(settings=Settings()), settings=Settings(exports=exports))
    )
    assert (finding.verdict, finding.found) == (Verdict.PASS, "csv, focus to s3://bucket/x")
