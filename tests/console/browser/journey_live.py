"""Pages that are open hear of what happens elsewhere: without a reload, and without asking again and again."""

from __future__ import annotations

from tests.console.browser.stage import Hand, Stage, open_browser
from tests.harness import SERVED

LIVE = "/v1/organization/live"


async def test_an_open_page_shows_what_others_do(stage: Stage) -> None:
    gateway = stage.gateway
    tenant = await gateway.tenant("Acme")
    await gateway.refresh()
    async with open_browser() as context:
        page = await context.new_page()
        hand = Hand(page)
        streams: list[str] = []
        page.on("response", lambda answer: streams.append(answer.url) if LIVE in answer.url else None)
        await hand.sign_in(stage.url)
        await hand.jump("Requests")
        await hand.see("No requests in the last 7 days")
        await page.evaluate("window.isStillThere = true")
        await gateway.client(tenant).chat.completions.create(
            model=SERVED, messages=[{"role": "user", "content": "hi"}]
        )
        await page.get_by_role("table", name="Requests").get_by_text("Acme").wait_for()
        await hand.jump("Audit log")
        await page.get_by_role("table", name="Audit log").wait_for()
        await gateway.admin("POST", "/projects", {"name": "Globex"})
        await page.get_by_role("table", name="Audit log").get_by_text("Globex").wait_for()
        assert await page.evaluate("window.isStillThere"), "nothing was loaded anew"
        assert streams, "it was told, and did not ask"


async def test_a_session_that_is_ended_elsewhere_ends_here(stage: Stage) -> None:
    async with open_browser() as here, open_browser("dark") as elsewhere:
        page = await here.new_page()
        await Hand(page).sign_in(stage.url)
        other = Hand(await elsewhere.new_page())
        await other.sign_in(stage.url)
        await other.page.goto(f"{stage.url}settings?tab=you")
        await other.activate("Sign out everywhere")
        await page.get_by_label("Password").wait_for()
        assert await page.get_by_role("navigation", name="Main").count() == 0
