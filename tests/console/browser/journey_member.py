"""A member of one tenant: accepts the invitation, sees that tenant and no other, and nothing that is the operator's."""

from __future__ import annotations

from tests.console.browser.stage import PASSWORD, Hand, Stage, open_browser


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
        await page.goto(gateway.url + "/console/" + invite["accept_url"].partition("/console/")[2])
        await page.get_by_label("Your name").wait_for()
        await hand.to("Your name")
        await hand.type("Ann")
        await hand.to("Password")
        await hand.type(PASSWORD)
        await hand.press("Enter")
        await hand.see_heading("Acme")
        rail = await page.get_by_role("navigation", name="Main").inner_text()
        assert {"Tenants", "Requests", "Usage & cost"} <= set(rail.splitlines())
        assert not {"Overview", "Pools", "Audit log"} & set(rail.splitlines())
        await hand.activate("Keys")
        await page.get_by_role("table", name="API keys").wait_for()
        assert await page.get_by_role("button", name="New key").count() == 0
        await hand.activate("Models")
        await hand.see("served-model")
        await hand.jump("Requests")
        await hand.see("No requests yet")
        await page.goto(f"{stage.url}tenants/{other.id}")
        await hand.see("No such project.")
