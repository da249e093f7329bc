"""Callers of each kind that the table of access knows."""

from __future__ import annotations

from dataclasses import dataclass

from tests.harness import Gateway, Tenant


@dataclass(frozen=True)
class Cast:
    """A key per column of the table; the project's own people belong to `project` and to nothing else."""

    project: Tenant
    other: Tenant
    keys: dict[str, str]


async def admin_key(gateway: Gateway, role: str, user_id: str | None = None) -> str:
    body = {"name": role, "role": role} | ({"user_id": user_id} if user_id is not None else {})
    made = await gateway.admin("POST", "/admin_api_keys", body)
    return str(made["value"])


async def user(gateway: Gateway, role: str, name: str = "somebody") -> str:
    body = {"email": f"{name}@example.com", "name": name, "role": role}
    return str((await gateway.admin("POST", "/users", body))["id"])


async def cast_of(gateway: Gateway) -> Cast:
    project, other = await gateway.tenant("mine"), await gateway.tenant("other")
    keys = {role: await admin_key(gateway, role) for role in ("owner", "admin", "billing", "viewer")}
    for role in ("owner", "member"):
        user_id = await user(gateway, "member", f"project-{role}")
        await gateway.admin("POST", f"/projects/{project.id}/users", {"role": role, "user_id": user_id})
        keys[f"project_{role}"] = await admin_key(gateway, "member", user_id)
    body = {"name": "reader", "scopes": ["usage.read"]}
    made = await gateway.admin("POST", f"/projects/{project.id}/api_keys", body)
    await gateway.refresh()
    return Cast(project, other, keys | {"api_key": made["value"]})
