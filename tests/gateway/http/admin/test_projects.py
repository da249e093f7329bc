"""Projects, accounts, keys and permissions with the stock client's admin resources, strictly validated."""

from __future__ import annotations

import openai
import pytest

from gateway.settings import LimitSettings
from tests.fakes.engine import FakeEngine
from tests.harness import Gateway


def admin(gateway: Gateway) -> openai.AsyncOpenAI:
    client = openai.AsyncOpenAI(
        api_key="none",
        admin_api_key=gateway.admin_key,
        base_url=f"{gateway.url}/v1",
        max_retries=0,
        _strict_response_validation=True,
    )
    gateway.adopt(client)
    return client


async def test_projects(gateway: Gateway) -> None:
    projects = admin(gateway).admin.organization.projects
    made = [await projects.create(name=f"project {number}") for number in range(7)]
    assert (await projects.retrieve(made[0].id)).name == "project 0"
    listed = [project.id async for project in projects.list(limit=3)]
    assert listed == [project.id for project in reversed(made)], "three pages, newest first"
    archived = await projects.archive(made[0].id)
    assert archived.status == "archived"
    assert archived.archived_at is not None
    assert made[0].id not in [project.id async for project in projects.list()]
    assert made[0].id in [project.id async for project in projects.list(include_archived=True)]
    with pytest.raises(openai.NotFoundError):
        await projects.retrieve("proj_none")


async def test_a_service_account_brings_its_key(gateway: Gateway) -> None:
    projects = admin(gateway).admin.organization.projects
    project = await projects.create(name="p")
    account = await projects.service_accounts.create(project.id, name="robot", expires_in_seconds=60)
    assert account.api_key is not None
    assert account.api_key.expires_at is not None
    await gateway.refresh()
    models = gateway.client(account.api_key.value).models
    assert [model.id async for model in models.list()] == []
    assert [found.id async for found in projects.service_accounts.list(project.id)] == [account.id]
    [key] = [found async for found in projects.api_keys.list(project.id)]
    assert key.owner.service_account is not None
    assert key.owner.service_account.id == account.id
    assert account.api_key.value not in key.to_json()
    gone = await projects.api_keys.delete(key.id, project_id=project.id)
    assert gone.deleted
    await gateway.refresh()
    with pytest.raises(openai.AuthenticationError):
        _ = [model async for model in models.list()]
    with pytest.raises(openai.NotFoundError):
        await projects.api_keys.retrieve(key.id, project_id=project.id)


async def test_model_permissions(gateway: Gateway) -> None:
    permissions = admin(gateway).admin.organization.projects.model_permissions
    tenant = await gateway.tenant()
    with pytest.raises(openai.NotFoundError):
        await permissions.retrieve(tenant.id)
    made = await permissions.update(tenant.id, mode="allow_list", model_ids=["a", "b"])
    assert (made.mode, made.api_model_ids) == ("allow_list", ["a", "b"])
    assert (await permissions.retrieve(tenant.id)).api_model_ids == ["a", "b"]
    assert (await permissions.delete(tenant.id)).deleted
    with pytest.raises(openai.NotFoundError):
        await permissions.update("proj_none", mode="allow_list", model_ids=[])


async def test_every_change_is_audited_without_secrets(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    await gateway.admin("POST", f"/projects/{tenant.id}/limits", {"requests_per_min": 5})
    rows = await gateway.sql(
        "SELECT action, actor_kind, actor_id, request_id, details FROM audit_log ORDER BY id"
    )
    actions = [row["action"] for row in rows]
    assert actions[-3:] == ["project.created", "api_key.created", "rate_limit.updated"]
    assert {row["actor_kind"] for row in rows[-3:]} == {"admin_key"}
    assert all(row["request_id"].startswith("req_") for row in rows[-3:])
    assert tenant.key not in str(rows)


@pytest.mark.parametrize(
    "gateway_changes",
    [{"limits": LimitSettings(requests_per_minute=7, tokens_per_minute=0, visible_models=("first", "none"))}],
)
async def test_what_a_new_project_gets_is_in_the_settings(gateway: Gateway, engine: FakeEngine) -> None:
    pool_id = await gateway.pool(engine)
    for name in ("first", "second"):
        await gateway.route(pool_id, name)
    tenant = await gateway.tenant()
    await gateway.refresh()
    assert [model.id async for model in gateway.client(tenant).models.list()] == ["first"]
    [limits] = (await gateway.admin("GET", f"/projects/{tenant.id}/limits"))["data"]
    assert (limits["requests_per_min"], limits["tokens_per_min"]) == (7, None)
    assert limits["concurrent_requests"] == LimitSettings().concurrent_requests
    await admin(gateway).admin.organization.projects.model_permissions.delete(tenant.id)
    await gateway.admin("DELETE", f"/projects/{tenant.id}/limits/{limits['id']}")
    await gateway.refresh()
    assert [model.id async for model in gateway.client(tenant).models.list()] == ["first", "second"]
    assert (await gateway.admin("GET", f"/projects/{tenant.id}/limits"))["data"] == []


@pytest.mark.parametrize("name", ["a\r\nb", "a\x1b[31m", "a\u202eb", "a\u2066b", "a\x85b", "a\u2028b"])
async def test_names_hold_nothing_that_rearranges_a_list(gateway: Gateway, name: str) -> None:
    for path, body in (
        ("/projects", {}),
        ("/admin_api_keys", {}),
        ("/users", {"email": "a@example.com", "role": "owner"}),
        ("/pools", {"spec": {"model": "m", "served_names": ["m"]}}),
    ):
        url = f"/v1/organization{path}"
        answer = await gateway.request("POST", url, body | {"name": name}, gateway.admin_key)
        error = (await answer.json())["error"]
        assert (answer.status, error["code"], error["param"]) == (400, "invalid_value", "name"), path
        assert name not in error["message"]
    made = await gateway.admin("POST", "/projects", {"name": "Größe 日本 مرحبا 👩‍🔬"})
    assert made["name"] == "Größe 日本 مرحبا 👩‍🔬"


@pytest.mark.parametrize("model", ["x" * 129, "", "a\nb", "x" * 100_000])
async def test_permissions_name_models_as_routes_do(gateway: Gateway, model: str) -> None:
    tenant = await gateway.tenant()
    url = f"/v1/organization/projects/{tenant.id}/model_permissions"
    sent = {"mode": "deny_list", "model_ids": ["good", model]}
    answer = await gateway.request("POST", url, sent, gateway.admin_key)
    assert answer.status == 400
    assert (await answer.json())["error"]["param"] == "model_ids.1"
