"""Rotation of the server's own secrets while two gateways run: what was made before works during and after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.alerts.repository.endpoints import EVERYBODY, EndpointRepository
from gateway.errors import Conflict
from gateway.rotation import KeyUse, Secrets
from gateway.settings import SettingsError
from tests.fakes.engine import FakeEngine
from tests.harness import SERVED, Gateway, Tenant

URL = "/v1/chat/completions"
ASK: dict[str, Any] = {"model": SERVED, "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def gateway_changes(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "pepper").write_text("a-pepper-of-sixteen-bytes-at-least")
    (tmp_path / "master").write_text("a-master-key")
    return {"security": {"key_pepper_file": tmp_path / "pepper", "master_key_file": tmp_path / "master"}}


@pytest.fixture
async def gateway(
    database_url: str, cache_url: str, tmp_path: Path, gateway_changes: dict[str, Any]
) -> AsyncIterator[Gateway]:
    """Its books are not checked at the end: there are two of them."""
    async with Gateway(database_url, cache_url, tmp_path, **gateway_changes) as running:
        yield running


@pytest.fixture
async def second(
    gateway: Gateway, database_url: str, cache_url: str, tmp_path: Path, gateway_changes: dict[str, Any]
) -> AsyncIterator[Gateway]:
    """Started before anything is rotated."""
    other = Gateway(database_url, cache_url, tmp_path, gateway_id="gw-2", **gateway_changes)
    other.admin_key = gateway.admin_key
    async with other:
        yield other


@pytest.fixture
async def secrets(gateway: Gateway) -> AsyncIterator[Secrets]:
    found = Secrets(gateway.settings)
    yield found
    await found.close()


async def ask(gateway: Gateway, tenant: Tenant, key: str) -> tuple[int, bytes]:
    answer = await gateway.request("POST", URL, ASK, tenant.key, headers={"idempotency-key": key})
    return answer.status, await answer.read()


async def test_answers_from_before_are_given_during_and_after(
    gateway: Gateway, second: Gateway, secrets: Secrets, engine: FakeEngine
) -> None:
    tenant = await gateway.serve(engine)
    await gateway.admin("POST", f"/projects/{tenant.id}/idempotency", {"enabled": True})
    for one in (gateway, second):
        await one.refresh()
    first = await ask(gateway, tenant, "before")
    assert first[0] == 200
    salt = engine.requests[0].headers["x-cache-salt"]
    assert await secrets.rotate_master_key(standby=False) == "m2"
    later = await ask(second, tenant, "during")
    assert await secrets.seal_again() == 0, "the gateway sealed it under the new key already"
    for one in (gateway, second):
        assert await ask(one, tenant, "before") == first
        assert await ask(one, tenant, "during") == later
    await secrets.drop_master_key("m1")
    assert await secrets.master_keys() == [KeyUse("m2", True, 2)]
    for one in (gateway, second):
        assert await ask(one, tenant, "before") == first
    assert len(engine.requests) == 2, "nobody ran a request again"
    assert (await ask(second, tenant, "after"))[0] == 200
    assert engine.requests[-1].headers["x-cache-salt"] == salt, "the caches stay warm"
    with pytest.raises(Conflict, match="3 secrets"):
        await secrets.drop_master_key("m2")
    await gateway.sql("DELETE FROM idempotent_request")
    with pytest.raises(SettingsError, match="current"):
        await secrets.drop_master_key("m2")


async def test_webhook_secrets_are_sealed_again(gateway: Gateway, second: Gateway, secrets: Secrets) -> None:
    body = {"name": "n", "url": "https://hooks.example.com/", "event_types": ["ledger.drift"]}
    made = await gateway.admin("POST", "/webhook_endpoints", body)
    assert await secrets.master_keys() == [KeyUse("m1", True, 1)]
    assert await secrets.rotate_master_key(standby=False) == "m2"
    assert await secrets.master_keys() == [KeyUse("m2", True, 1), KeyUse("m1", False, 0)]
    await secrets.drop_master_key("m1")
    kept = {"keep_old_secret_active_for_24_hours": True}
    rotated = await second.admin("POST", f"/webhook_endpoints/{made['id']}/rotate_secret", kept)
    async with gateway.app.database.read() as session:
        endpoint = await EndpointRepository().endpoint(session, EVERYBODY, made["id"])
    assert endpoint is not None
    opened = gateway.app.webhooks.vault.open(endpoint)
    assert opened is not None
    assert opened.active(gateway.app.clock.now()) == (rotated["signing_secret"], made["signing_secret"])
    with pytest.raises(Conflict, match="1 secrets"):
        await secrets.drop_master_key("m2")


async def test_keys_from_before_work_and_are_stored_anew_when_they_are_used(
    gateway: Gateway, second: Gateway, secrets: Secrets
) -> None:
    tenant, unused = await gateway.tenant(), await gateway.tenant()
    assert await secrets.rotate_pepper(standby=True) == "p2"
    assert [use.name for use in await secrets.peppers()] == ["p1", "p2"]
    assert await secrets.rotate_pepper(standby=False) == "p2"
    made = await second.tenant("new")
    for one in (gateway, second):
        await one.refresh()
        for key in (tenant.key, made.key):
            assert (await one.request("GET", "/v1/models", key=key)).status == 200
        assert (await one.request("GET", "/v1/organization/projects", key=one.admin_key)).status == 200
    await gateway.app.directory.close()
    await second.app.directory.close()
    assert await secrets.peppers() == [KeyUse("p2", True, 3), KeyUse("p1", False, 1)]
    with pytest.raises(Conflict, match="1 keys"):
        await secrets.drop_pepper("p1")
    await gateway.refresh()
    await gateway.admin("DELETE", f"/projects/{unused.id}/api_keys/{unused.key_id}")
    await secrets.drop_pepper("p1")
    for one in (gateway, second):
        await one.refresh()
        for key in (tenant.key, made.key):
            assert (await one.request("GET", "/v1/models", key=key)).status == 200
        assert (await one.request("GET", "/v1/models", key=unused.key)).status == 401
    rows = await gateway.sql("SELECT action FROM audit_log WHERE actor_id = 'operator' ORDER BY id")
    assert [row["action"] for row in rows] == ["pepper.created", "pepper.rotated", "pepper.deleted"]


async def test_many_requests_of_a_key_store_it_once(gateway: Gateway, secrets: Secrets) -> None:
    tenant = await gateway.tenant()
    await secrets.rotate_pepper(standby=False)
    await gateway.tenant("new")  # so that the gateway has heard of the new pepper
    asked = [gateway.request("GET", "/v1/models", key=tenant.key) for _ in range(30)]
    assert {answer.status for answer in await asyncio.gather(*asked)} == {200}
    await gateway.app.directory.close()
    [row] = await gateway.sql("SELECT pepper_id FROM api_key WHERE id = $1", tenant.key_id)
    assert row["pepper_id"] == "p2"
