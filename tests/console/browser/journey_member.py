"""A member of one tenant: accepts the invitation, sees that tenant and no other, and nothing that is the operator's;
and chats without a key of any kind."""

from __future__ import annotations

from tests.console.browser.journey_operator import say
from tests.console.browser.stage import Hand, Stage, open_browser


async def test_a_member_sees_their_own_tenant(stage: Stage) -> None:
    gateway = stage.gateway
    mine, other = await gateway.tenant("Acme"), await gateway.tenant("Globex")
    invite = await gateway.admin(
        "POST",
        "/invites",
        {"email": "ann@example.com", "role": "member", "projects": [{"id": mine.id, "role": "member"}]},
    )
    async with open_browser() as context:
        page = await context.new_page()
        hand = Hand(page)
        await hand.accept(gateway, invite)
        await hand.see_heading("Acme")
        rail = await page.get_by_role("navigation", name="Main").inner_text()
        assert {"Tenants", "Requests", "Usage & cost"} <= set(rail.splitlines())
        assert not {"Overview", "Pools", "Audit log"} & set(rail.splitlines())
        await hand.activate("Keys")
        await page.get_by_role("table", name="API keys").wait_for()
        assert await page.get_by_role("button", name="New key").count() == 0
        await hand.activate("Limits & budgets")
        await page.get_by_role("heading", name="Limits", exact=True).wait_for()
        await hand.see("The whole tenant")
        assert await page.get_by_role("button", name="New limits").count() == 0
        await hand.activate("Models")
        await hand.see("served-model")
        await hand.activate("Usage & cost")
        await page.get_by_role("figure", name="Cost per day, UTC").wait_for()
        await hand.activate("SLO")
        await page.get_by_role("heading", name="Promises").wait_for()
        await page.get_by_role("figure", name="Time to first token").wait_for()
        await hand.jump("Requests")
        await hand.see("No requests in the last 7 days")
        await hand.jump("Playground")
        await say(hand, "one two three")
        await hand.see("What it cost")
        [event] = await gateway.events(count=1, within_s=60)
        assert event["tenant_id"] == mine.id
        await hand.activate("What it cost")
        await hand.see_heading("Request")
        await hand.see("Charged")
        await page.goto(f"{stage.url}tenants/{other.id}")
        await hand.see("No such project.")
