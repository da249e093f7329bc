"""API keys: shown once, their project's own, rotated."""

from __future__ import annotations

import time

import openai
import pytest

from tests.fakes.engine import FakeEngine
from tests.gateway.http.admin.test_projects import admin
from tests.gateway.usage_events import fold_all
from tests.harness import SERVED, Gateway


async def test_keys_are_their_projects(gateway: Gateway) -> None:
    mine, other = await gateway.tenant("mine"), await gateway.tenant("other")
    api_keys = admin(gateway).admin.organization.projects.api_keys
    for call in (api_keys.retrieve, api_keys.delete):
        with pytest.raises(openai.NotFoundError):
            await call(mine.key_id, project_id=other.id)
    assert (await api_keys.retrieve(mine.key_id, project_id=mine.id)).id == mine.key_id


async def test_rotation_shows_the_value_once(gateway: Gateway) -> None:
    """Duty E30: over HTTP, both keys work during the grace, and the repeated call answers with the same key."""
    tenant = await gateway.tenant()
    path = f"/projects/{tenant.id}/api_keys/{tenant.key_id}/rotate"
    body = {"grace_s": 60, "idempotency_key": "once"}
    first = await gateway.admin("POST", path, body)
    again = await gateway.admin("POST", path, body)
    assert first["id"] == again["id"] != tenant.key_id
    assert first["value"].startswith("tw-")
    assert again["value"] is None
    await gateway.refresh()
    for key in (tenant.key, first["value"]):
        assert (await gateway.request("GET", "/v1/models", key=key)).status == 200


async def test_a_rotated_key_finds_what_it_did(gateway: Gateway, engine: FakeEngine) -> None:
    """The ledger keeps it under the first key of the rotations; whoever filters may name any of them."""
    tenant = await gateway.serve(engine)
    path, ids = f"/projects/{tenant.id}/api_keys", [tenant.key_id]
    for turn in ("a", "b"):
        body = {"grace_s": 0, "idempotency_key": turn}
        made = await gateway.admin("POST", f"{path}/{ids[-1]}/rotate", body)
        ids.append(made["id"])
    await gateway.refresh()
    ask = {"model": SERVED, "messages": [{"role": "user", "content": "hi"}]}
    assert (await gateway.request("POST", "/v1/chat/completions", ask, made["value"])).status == 200
    await gateway.events(1)
    await fold_all(gateway.app.database)
    for key_id in ids:
        assert len((await gateway.admin("GET", f"/requests?api_key_id={key_id}"))["data"]) == 1
        query = f"start_time=0&api_key_ids={key_id}"
        for asked in (f"/usage/breakdown?group_by=api_key_id&{query}", f"/usage/usual?api_key_ids={key_id}"):
            shown = await gateway.admin("GET", asked)
            assert shown["data"], asked
            assert shown["total"]["num_model_requests"] == 1, asked
        today = int(time.time()) // 86_400 * 86_400 - 86_400
        for kind in ("usage/completions", "costs"):
            page = await gateway.admin("GET", f"/{kind}?start_time={today}&api_key_ids={key_id}")
            assert sum(len(bucket["results"]) for bucket in page["data"]) == 1, kind
    assert (await gateway.admin("GET", "/requests?api_key_id=key_none"))["data"] == []


async def test_a_key_that_was_rotated_a_thousand_times_still_works(
    gateway: Gateway, engine: FakeEngine
) -> None:
    tenant = await gateway.serve(engine)
    await gateway.sql(
        "INSERT INTO api_key (tenant_id, id, name, public_id, secret_hmac, pepper_id, rotated_from)"
        " SELECT tenant_id, 'key_' || n, name, 'public' || n, secret_hmac, pepper_id,"
        " CASE n WHEN 1 THEN id ELSE 'key_' || n - 1 END FROM api_key, generate_series(1, 1200) n WHERE id = $1",
        tenant.key_id,
    )
    body = {"grace_s": 0, "idempotency_key": "once more"}
    made = await gateway.admin("POST", f"/projects/{tenant.id}/api_keys/key_1200/rotate", body)
    await gateway.refresh()
    ask = {"model": SERVED, "messages": [{"role": "user", "content": "hi"}]}
    assert (await gateway.request("POST", "/v1/chat/completions", ask, made["value"])).status == 200
    [event] = await gateway.events(1)
    assert event["key_id"] == tenant.key_id
