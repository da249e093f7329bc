"""The audit log with the stock client: who, what, before and after; filters, pages in both directions."""

from __future__ import annotations

import openai
import pytest

from tests.gateway.http.admin.clients import admin_client
from tests.gateway.http.admin.people import user
from tests.harness import Gateway


async def test_pages_and_filters(gateway: Gateway) -> None:
    organization = admin_client(gateway).admin.organization
    tenants = [await gateway.tenant(f"t{number}") for number in range(4)]
    await gateway.admin("POST", "/pools", {"name": "p", "spec": {"model": "m", "served_names": ["m"]}})
    await gateway.admin("POST", f"/projects/{tenants[0].id}/idempotency", {"enabled": True})
    logs = organization.audit_logs
    everything = [log async for log in logs.list(limit=3)]
    assert len(everything) == 12, "the first owner and key, four times project and key, a pool, a switch"
    assert len({log.id for log in everything}) == 12
    assert [log.effective_at for log in everything] == sorted(
        (log.effective_at for log in everything), reverse=True
    )
    page = await logs.list(limit=3, before=everything[9].id)
    assert ([log.id for log in page.data], page.has_more) == ([log.id for log in everything[6:9]], True)
    made = [log async for log in logs.list(event_types=["project.created"], limit=2)]
    assert [log.project.id if log.project else None for log in made] == [one.id for one in reversed(tenants)]
    own = [log async for log in logs.list(project_ids=[tenants[0].id, tenants[1].id])]
    assert len(own) == 5
    [switch] = [log async for log in logs.list(event_types=["project.updated"])]
    assert switch.project_updated is not None
    assert switch.project_updated.id == tenants[0].id
    [pool] = [log async for log in logs.list(event_types=["organization.updated"])]
    assert (pool.action, pool.resource["type"]) == ("pool.created", "pool")  # type: ignore[attr-defined]  # ours
    assert [log.id async for log in logs.list(event_types=["pool.created"])] == [pool.id]  # type: ignore[list-item]  # ours
    keyed = [log async for log in logs.list(resource_ids=[tenants[2].key_id])]
    assert [log.type for log in keyed] == ["api_key.created"]
    assert [log.type async for log in logs.list(tenant_only=True)] == ["tenant.admin_api_key.created"]
    with pytest.raises(openai.BadRequestError) as refused:
        await logs.list(after="audit_log_none")
    assert refused.value.param == "after"


async def test_who_it_was(gateway: Gateway) -> None:
    organization = admin_client(gateway).admin.organization
    somebody = await user(gateway, "admin", "anna")
    key = await gateway.admin("POST", "/admin_api_keys", {"name": "k", "role": "admin", "user_id": somebody})
    await gateway.refresh()
    hers = admin_client(gateway, key["value"]).admin.organization
    project = await hers.projects.create(name="p")
    logs = organization.audit_logs
    for by in ({"actor_ids": [somebody]}, {"actor_ids": [key["id"]]}, {"actor_emails": ["ANNA@example.com"]}):
        [log] = [log async for log in logs.list(**by)]  # type: ignore[arg-type]  # one of them each time
        assert (log.type, log.project.id if log.project else None) == ("project.created", project.id)
        assert log.actor is not None
        assert log.actor.type == "api_key"
        assert log.actor.api_key is not None
        assert (log.actor.api_key.id, log.actor.api_key.type) == (key["id"], "user")
        assert log.actor.api_key.user is not None
        assert (log.actor.api_key.user.id, log.actor.api_key.user.email) == (somebody, "anna@example.com")
    assert log.project_created is not None
    assert log.project_created.data is not None
    assert (log.project_created.data.name, log.project_created.data.title) == ("p", "p")
    assert [log async for log in logs.list(actor_ids=["user_none"])] == []
    first = [log async for log in logs.list()][-1]
    assert first.actor is not None
    assert (first.actor.type, first.actor.system) == (None, {"id": "bootstrap"})  # type: ignore[attr-defined]  # ours


async def test_when_it_was(gateway: Gateway) -> None:
    logs = admin_client(gateway).admin.organization.audit_logs
    await gateway.tenant()
    at = (await logs.list(limit=1)).data[0].effective_at
    count = len([log async for log in logs.list()])
    for range_, found in (
        ({"gte": at - 3600}, count),
        ({"gt": at}, 0),
        ({"lte": at}, count),
        ({"lt": at - 3600}, 0),
        ({"gt": at - 3600, "lt": at + 1}, count),
    ):
        assert len([log async for log in logs.list(effective_at=range_)]) == found, range_  # type: ignore[arg-type]  # a range
