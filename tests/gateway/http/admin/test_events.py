"""Usage events, page by page."""

from __future__ import annotations

from typing import Any

from tests.fakes.engine import FakeEngine
from tests.harness import SERVED, Gateway

SPEC = {"model": "/models/m.gguf", "served_names": ["m"]}


async def test_usage_events_page_by_key(gateway: Gateway, engine: FakeEngine) -> None:
    tenant = await gateway.serve(engine)
    other = await gateway.tenant("other")
    await gateway.refresh()
    for number in range(7):
        await gateway.client(tenant).completions.create(model=SERVED, prompt="x " * (number + 1))
    await gateway.client(other).completions.create(model=SERVED, prompt="y")
    await gateway.events(8)
    seen: list[dict[str, Any]] = []
    after = ""
    while True:
        page = await gateway.admin("GET", f"/usage_events?project_id={tenant.id}&limit=3{after}")
        seen += page["data"]
        assert len(page["data"]) <= 3
        if not page["has_more"]:
            break
        after = f"&after={page['last_id']}"
    assert [event["completion_tokens"] for event in seen] == [7, 6, 5, 4, 3, 2, 1]
    assert len((await gateway.admin("GET", "/usage_events"))["data"]) == 8
    one = await gateway.admin("GET", f"/usage_events?request_id={seen[0]['request_id']}")
    assert [event["id"] for event in one["data"]] == [seen[0]["id"]]
