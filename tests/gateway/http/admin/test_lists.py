"""Every list of the admin API has pages and a cap, whoever adds the next one."""

from __future__ import annotations

from typing import Any

from tests.harness import Gateway

PREFIX = "/v1/organization"
# What a GET without an id at its end may be besides a list.
SINGLE = (
    "/model_permissions",
    "/spend_limit",
    "/outage_allowance",
    "/idempotency",
    "/usage/usual",
    "/openapi.json",
    "/me",
    "/webhook_event_types",
    "/overview",
    "/search",
    "/sessions/methods",
    "/identity_provider",
)
FAR_TOO_MANY = 1_000_000
REQUIRED = {"start_time": "0", "group_by": "model"}


async def test_every_list_is_capped(gateway: Gateway) -> None:
    """Duty C23: each list takes a `limit`, and refuses one beyond its cap instead of reading all there is."""
    tenant = await gateway.tenant()
    document = await gateway.admin("GET", "/openapi.json")
    uncapped, seen = [], 0
    for path, methods in document["paths"].items():
        is_list = "get" in methods and not path.endswith(("}", *SINGLE))
        if not is_list or not path.startswith(PREFIX):
            continue
        seen += 1
        parameters: list[dict[str, Any]] = methods["get"].get("parameters", [])
        names = {parameter["name"] for parameter in parameters}
        if "limit" not in names or (not names & {"after", "page"} and "breakdown" not in path):
            uncapped.append(f"{path}: no limit, or no way to the next page")
            continue
        needed = [
            name for name in REQUIRED if any(one["name"] == name and one["required"] for one in parameters)
        ]
        query = "&".join(f"{name}={REQUIRED[name]}" for name in needed)
        asked = path.replace("{project_id}", tenant.id).removeprefix(PREFIX)
        answer = await gateway.request(
            "GET", f"{PREFIX}{asked}?limit={FAR_TOO_MANY}&{query}", key=gateway.admin_key
        )
        error = (await answer.json()).get("error", {})
        if (answer.status, error.get("param")) != (400, "limit"):
            uncapped.append(f"{path}: a limit of {FAR_TOO_MANY} was answered with {answer.status} {error}")
    assert not uncapped, "\n".join(uncapped)
    assert seen > 12


async def test_pools_have_pages(gateway: Gateway) -> None:
    for number in range(5):
        spec = {"model": "model", "served_names": [f"m{number}"]}
        await gateway.admin("POST", "/pools", {"name": f"pool {number}", "spec": spec})
    names: list[str] = []
    page = await gateway.admin("GET", "/pools?limit=2")
    while True:
        names += [pool["name"] for pool in page["data"]]
        assert len(page["data"]) <= 2
        if not page["has_more"]:
            break
        page = await gateway.admin("GET", f"/pools?limit=2&after={page['last_id']}")
    assert names == [f"pool {number}" for number in reversed(range(5))]
