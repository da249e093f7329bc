"""The search box: everything for operators, their own for members."""

from __future__ import annotations

from typing import Any

from tests.fakes.engine import FakeEngine
from tests.gateway.asking import BODY, ask
from tests.gateway.http.admin.browser import Browser, invited
from tests.harness import SERVED, Gateway


async def found(browser: Browser, text: str) -> list[tuple[Any, ...]]:
    rows = (await browser.json("GET", f"/search?q={text}"))["data"]
    return [(row["kind"], row["id"], row["project_id"]) for row in rows]


async def test_projects_keys_models_and_requests(gateway: Gateway, engine: FakeEngine) -> None:
    mine, other = await gateway.serve(engine), await gateway.tenant("Other & co")
    assert (await ask(gateway, mine, BODY))[0] == 200
    [event] = await gateway.events(1)
    request = ("request", event["request_id"], mine.id)
    owner = await invited(gateway)
    member = await invited(gateway, "member", "m@example.com", **{other.id: "member"})
    billing = await invited(gateway, "billing", "b@example.com")
    assert await found(owner, event["request_id"]) == [request]
    assert await found(member, event["request_id"]) == []
    assert await found(owner, "other%20%26") == [("project", other.id, other.id)]
    assert await found(owner, SERVED[:4]) == [("model", SERVED, None)]
    key = ("api_key", mine.key_id, mine.id)
    assert await found(owner, mine.key[:11]) == [key], "as a masked key shows it"
    assert await found(member, mine.key[:11]) == []
    assert await found(billing, mine.key_id) == [], "whose role may not list keys finds none"
    assert await found(member, mine.id) == []
    assert await found(member, other.id) == [("project", other.id, other.id)]
    assert (await owner.send("GET", "/search?q=x")).status == 400
