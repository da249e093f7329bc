"""Episodes and silences over HTTP."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from gateway.alerts.episodes import Episode
from gateway.alerts.repository.episodes import begin, row_of
from tests.harness import Gateway


async def add_episodes(gateway: Gateway, *owners: str | None) -> list[str]:
    now = gateway.app.clock.now()
    made = [
        Episode(
            id=f"episode_{n}",
            source="slo.burn_rate",
            scope=f"scope {n}",
            severity="page",
            tenant_id=owner,
            values={"burn": {"1h": 20}},
            fired_at=now + timedelta(seconds=n),
        )
        for n, owner in enumerate(owners)
    ]
    async with gateway.app.database.transaction() as connection:
        await begin(connection, [row_of(one, None) for one in made])
    return [one.id for one in made]


async def test_episodes_are_listed_newest_first(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    await add_episodes(gateway, None, tenant.id, None)
    first = await gateway.admin("GET", "/alert_episodes?limit=2")
    rest = await gateway.admin("GET", f"/alert_episodes?limit=2&after={first['last_id']}")
    assert [one["id"] for one in [*first["data"], *rest["data"]]] == ["episode_2", "episode_1", "episode_0"]
    one = await gateway.admin("GET", "/alert_episodes/episode_1")
    assert (one["state"], one["project_id"], one["values"]) == ("open", tenant.id, {"burn": {"1h": 20}})
    theirs = await gateway.admin(
        "GET", f"/alert_episodes?project_id={tenant.id}&state=open&source=slo.burn_rate"
    )
    assert [one["id"] for one in theirs["data"]] == ["episode_1"]
    assert (await gateway.admin("GET", "/alert_episodes?state=resolved"))["data"] == []
    await gateway.admin("GET", "/alert_episodes/none", status=404)


async def test_a_project_sees_its_own(gateway: Gateway) -> None:
    mine, theirs = await gateway.tenant("mine"), await gateway.tenant("theirs")
    ids = await add_episodes(gateway, mine.id, theirs.id, None)
    key = await gateway.admin(
        "POST", f"/projects/{mine.id}/api_keys", {"name": "k", "scopes": ["usage.read"]}
    )

    async def get(path: str, status: int = 200) -> Any:
        answer = await gateway.request("GET", f"/v1/organization/{path}", key=key["value"])
        assert answer.status == status, path
        return await answer.json()

    assert [one["id"] for one in (await get("alert_episodes"))["data"]] == [ids[0]]
    assert (await get(f"alert_episodes?project_id={theirs.id}"))["data"] == []
    for name, status in zip(ids, (200, 404, 404), strict=True):
        await get(f"alert_episodes/{name}", status)
    await get("alert_silences", 403)


async def test_a_silence_is_made_listed_and_ended(gateway: Gateway) -> None:
    tenant = await gateway.tenant()
    body = {"source": "replica.down", "project_id": tenant.id, "reason": "we move", "lasts_s": 3600}
    made = await gateway.admin("POST", "/alert_silences", body)
    assert made["ends_at"] - made["starts_at"] == 3600
    assert await gateway.admin("GET", f"/alert_silences/{made['id']}") == made
    later = await gateway.admin(
        "POST", "/alert_silences", {"reason": "later", "starts_in_s": 60, "lasts_s": 60}
    )
    assert later["source"] is None
    assert len((await gateway.admin("GET", "/alert_silences?state=open"))["data"]) == 2
    first = await gateway.admin("GET", "/alert_silences?limit=1")
    rest = await gateway.admin("GET", f"/alert_silences?limit=1&after={first['last_id']}")
    assert {first["data"][0]["id"], rest["data"][0]["id"]} == {made["id"], later["id"]}
    assert (await gateway.admin("DELETE", f"/alert_silences/{made['id']}"))["deleted"]
    over = (await gateway.admin("GET", "/alert_silences?state=over"))["data"]
    assert [one["id"] for one in over] == [made["id"]]
    rows = await gateway.sql("SELECT action FROM audit_log WHERE resource_kind = 'alert_silence' ORDER BY id")
    assert [row["action"] for row in rows] == ["alert_silence.created"] * 2 + ["alert_silence.deleted"]
    await gateway.admin("DELETE", "/alert_silences/none", status=404)


async def test_silences_that_make_no_sense_are_refused(gateway: Gateway) -> None:
    for change, param in (
        ({"source": "weather"}, "source"),
        ({"project_id": "proj_none"}, "project_id"),
        ({"lasts_s": 1}, "lasts_s"),
        ({"reason": ""}, "reason"),
    ):
        body = {"reason": "x", "lasts_s": 60} | change
        answer = await gateway.admin("POST", "/alert_silences", body, 400)
        assert answer["error"]["param"] == param
