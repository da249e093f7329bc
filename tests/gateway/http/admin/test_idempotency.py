"""Opting in to `Idempotency-Key`, per project, audited."""

from __future__ import annotations

from tests.harness import Gateway


async def test_a_project_opts_in_and_out(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    path = f"/projects/{tenant.id}/idempotency"
    shown = {"object": "organization.project.idempotency", "project_id": tenant.id, "enabled": False}
    assert await gateway.admin("GET", path) == shown
    for enabled in (True, False):
        put = await gateway.admin("POST", path, {"enabled": enabled})
        assert put == await gateway.admin("GET", path) == {**shown, "enabled": enabled}
    actions = await gateway.sql("SELECT details FROM audit_log WHERE resource_kind = 'idempotency'")
    assert len(actions) == 2
    await gateway.admin("GET", "/projects/proj_x/idempotency", status=404)
    await gateway.admin("POST", "/projects/proj_x/idempotency", {"enabled": True}, 404)
