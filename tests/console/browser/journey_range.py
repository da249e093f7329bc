"""One range of time for all pages that show one: chosen in the top bar, kept in the address, gone along with."""

from __future__ import annotations

import re

from playwright.async_api import expect

from tests.console.browser.stage import Hand, Stage, open_browser

DAY = re.compile("range=24h")


async def test_a_range_goes_along_from_page_to_page(stage: Stage) -> None:
    await stage.gateway.tenant("Acme")
    async with open_browser() as context:
        page = await context.new_page()
        hand = Hand(page)
        await hand.sign_in(stage.url)
        chosen = page.get_by_role("button", name="Range of time")
        assert await chosen.count() == 0, "the overview shows what is now"
        await hand.jump("Requests")
        await hand.see("No requests in the last 7 days")
        await hand.to("Range of time")
        await hand.press("Enter")
        await page.get_by_role("button", name="Last 24 hours").wait_for()
        await hand.to("Last 24 hours")
        await hand.press("Enter")
        await hand.see("No requests in the last 24 hours")
        await expect(page).to_have_url(DAY)
        await hand.jump("Usage & cost")
        await hand.see("Nothing in the last 24 hours")
        await expect(page).to_have_url(DAY)
        await hand.jump("Acme")
        await page.get_by_role("heading", name="Last 24 hours", level=2).wait_for()
        await hand.activate("Keys")
        await hand.see("A change takes effect")
        assert await chosen.count() == 0, "keys are what they are now"
        await hand.jump("Audit log")
        await page.reload()
        await page.get_by_role("button", name="Range of time: Last 24 hours").wait_for()
        await page.get_by_role("table", name="Audit log").get_by_text("Acme").first.wait_for()
