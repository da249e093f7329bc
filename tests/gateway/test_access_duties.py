"""Duties about who may call what, over HTTP and with two gateways on one database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.gateway.http.admin.people import admin_key, user
from tests.harness import SERVED, Gateway

PREFIX = "/v1/organization"
ASK: dict[str, Any] = {"model": SERVED, "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
async def second(
    gateway: Gateway, database_url: str, cache_url: str, tmp_path: Path
) -> AsyncIterator[Gateway]:
    other = Gateway(database_url, cache_url, tmp_path, gateway_id="gw-2")
    other.admin_key = gateway.admin_key
    async with other:
        yield other


async def test_access_that_is_taken_away_is_gone_on_both_gateways(gateway: Gateway, second: Gateway) -> None:
    """Duty E31: whatever takes it away, one poll (each second) later no replica knows the key any more."""
    tenant, archived = await gateway.tenant(), await gateway.tenant("archived")
    path = f"/projects/{tenant.id}"
    account = await gateway.admin("POST", f"{path}/service_accounts", {"name": "robot"})
    narrow = await gateway.admin("POST", f"{path}/api_keys", {"name": "narrow"})
    somebody = await user(gateway, "viewer")
    operator = await gateway.admin("POST", "/admin_api_keys", {"name": "k", "role": "admin"})
    theirs = await admin_key(gateway, "viewer", somebody)
    taken = (
        (tenant.key, "DELETE", f"{path}/api_keys/{tenant.key_id}", None),
        (account["api_key"]["value"], "DELETE", f"{path}/service_accounts/{account['id']}", None),
        (archived.key, "POST", f"/projects/{archived.id}/archive", None),
        (narrow["value"], "POST", f"{path}/api_keys/{narrow['id']}", {"ip_allow_list": ["192.0.2.1"]}),
        (operator["value"], "DELETE", f"/admin_api_keys/{operator['id']}", None),
        (theirs, "DELETE", f"/users/{somebody}", None),
    )
    for key, method, change, body in taken:
        asked = f"{PREFIX}/projects" if key in (operator["value"], theirs) else "/v1/models"
        for one in (gateway, second):
            await one.refresh()
            assert (await one.request("GET", asked, key=key)).status == 200, change
        await second.admin(method, change, body)
        for one in (gateway, second):
            await one.refresh()
            assert (await one.request("GET", asked, key=key)).status == 401, change


async def test_another_name_of_the_same_pool_passes_the_same_list(
    gateway: Gateway, engine: FakeEngine
) -> None:
    """Duty E32: an alias is a served name like any other: what leads to the same pool opens nothing."""
    pool_id = await gateway.pool(engine)
    for name in (SERVED, "alias"):
        await gateway.route(pool_id, name)
    tenant = await gateway.tenant()
    url, permissions = "/v1/chat/completions", f"/projects/{tenant.id}/model_permissions"
    for mode, listed in (("allow_list", [SERVED]), ("deny_list", ["alias", engine.model])):
        await gateway.admin("POST", permissions, {"mode": mode, "model_ids": listed})
        await gateway.refresh()
        answers = []
        for name in ("alias", "unknown"):
            answer = await gateway.request("POST", url, ASK | {"model": name}, tenant.key)
            assert answer.status == 404, mode
            answers.append((await answer.text()).replace(name, "?"))
        assert answers[0] == answers[1]
        assert (await gateway.request("POST", url, ASK, tenant.key)).status == 200, mode
    assert len(engine.requests) == 2, "nothing but what is allowed reached the engine"


async def test_probes_generate_and_bill_nothing(gateway: Gateway, engine: FakeEngine) -> None:
    """Duty H41: what a gateway asks its replicas about their health and load is no request, and nobody's money."""
    await gateway.serve(engine)
    app = gateway.app
    before = engine.status_reads
    for _ in range(5):
        await app.replicas.poll(app.ask_status)
    assert engine.status_reads >= before + 5
    assert engine.requests == []
    assert await gateway.events(0) == []
