"""Objectives over HTTP: made, changed, deleted, paged, audited; and what a project sees of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness import Gateway

TTFT = {"sli": "ttft", "threshold_ms": 750, "target": 0.99}


async def test_an_objective_is_made_changed_and_deleted(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    made = await gateway.admin("POST", "/objectives", {**TTFT, "project_id": tenant.id, "model": "m"})
    assert (made["class"], made["threshold_ms"], made["target"]) == ("interactive", 750, 0.99)
    assert (made["window_days"], made["is_counted"]) == (30, False)
    path = f"/objectives/{made['id']}"
    assert await gateway.admin("GET", path) == made
    await gateway.sql("UPDATE objective SET is_recounted = true")
    kept = await gateway.admin("POST", path, {"threshold_ms": 750, "target": 0.95})
    assert (kept["target"], kept["is_counted"]) == (0.95, True), (
        "the threshold is the same: so are the counts"
    )
    changed = await gateway.admin("POST", path, {"threshold_ms": 1.2, "target": 0.95})
    assert (changed["threshold_ms"], changed["is_counted"]) == (1.2, False)
    assert (await gateway.admin("DELETE", path))["deleted"]
    await gateway.admin("GET", path, status=404)
    await gateway.admin("POST", path, {"target": 0.5}, 404)
    await gateway.admin("DELETE", path, status=404)
    rows = await gateway.sql("SELECT action FROM audit_log WHERE resource_kind = 'objective' ORDER BY id")
    verbs = [row["action"].partition(".")[2] for row in rows]
    assert verbs == ["created", "updated", "updated", "deleted"]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"threshold_ms": 755}, "threshold_ms"),
        ({"threshold_ms": None}, "threshold_ms"),
        ({"threshold_ms": 0}, "threshold_ms"),
        ({"sli": "availability"}, "threshold_ms"),
        ({"target": 1}, "target"),
        ({"target": 1e-9}, "target"),
        ({"sli": "uptime"}, "sli"),
        ({"class": "any"}, "class"),
        ({"project_id": "proj_none"}, "project_id"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_what_makes_no_sense_is_refused(gateway: Gateway, change: dict[str, Any], param: str) -> None:
    answer = await gateway.admin("POST", "/objectives", {**TTFT, **change}, 400)
    assert answer["error"]["param"] == param


async def test_one_per_scope(gateway: Gateway) -> None:
    """The usual ones are there from the start."""
    await gateway.admin("POST", "/objectives", TTFT, 409)
    made = await gateway.admin("POST", "/objectives", {**TTFT, "model": "m"})
    await gateway.admin("POST", "/objectives", {**TTFT, "model": "m"}, 409)
    rows = await gateway.sql("SELECT id FROM objective WHERE served_model = 'm'")
    assert [row["id"] for row in rows] == [made["id"]]


async def test_pages(gateway: Gateway) -> None:
    names: list[str] = []
    page = await gateway.admin("GET", "/objectives?limit=2")
    while True:
        names += [one["id"] for one in page["data"]]
        if not page["has_more"]:
            break
        page = await gateway.admin("GET", f"/objectives?limit=2&after={page['last_id']}")
    assert len(names) == len(set(names)) == 6


async def test_a_project_sees_its_own_and_those_of_everybody(gateway: Gateway) -> None:
    """Another one has the same 404 as one that does not exist."""
    mine, theirs = await gateway.tenant("mine"), await gateway.tenant("theirs")
    key = (
        await gateway.admin("POST", f"/projects/{mine.id}/api_keys", {"name": "k", "scopes": ["usage.read"]})
    )["value"]
    made = [
        (await gateway.admin("POST", "/objectives", {**TTFT, "project_id": tenant.id}))["id"]
        for tenant in (mine, theirs)
    ]
    answer = await gateway.request("GET", "/v1/organization/objectives?limit=100", key=key)
    seen = {one["id"] for one in (await answer.json())["data"]}
    assert made[0] in seen
    assert made[1] not in seen
    assert len(seen) == 7
    for name, status in zip(made, (200, 404), strict=True):
        assert (await gateway.request("GET", f"/v1/organization/objectives/{name}", key=key)).status == status
    refused = await gateway.request("POST", "/v1/organization/objectives", TTFT, key=key)
    assert refused.status == 403
