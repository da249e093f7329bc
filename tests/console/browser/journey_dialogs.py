"""What opens over a page, read by axe in both themes: it is labelled, legible, takes the focus and gives it back."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.console.browser.journey_pages import AXE, CHECK
from tests.console.browser.stage import Hand, Stage, open_browser

DIALOGS = {
    "/tenants": "New tenant",
    "/tenants/{tenant}?tab=keys": "New key",
    "/tenants/{tenant}?tab=limits": "New budget",
    "/tenants/{tenant}?tab=webhooks": "New endpoint",
    "/alerts?tab=objectives": "New objective",
    "/usage?tab=exports": "New export",
    "/models": "New route",
    "/pools": "New pool",
    "/settings?tab=users": "Invite somebody",
    "/settings?tab=keys": "New admin key",
}


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_what_opens_over_a_page(stage: Stage, theme: str) -> None:
    tenant = await stage.gateway.tenant("Acme")
    async with open_browser(theme) as context:
        page = await context.new_page()
        hand = Hand(page)
        await hand.sign_in(stage.url)
        faults: list[str] = []
        for path, button in DIALOGS.items():
            await page.goto(f"{stage.url[:-1]}{path.format(tenant=tenant.id)}")
            opener = page.get_by_role("button", name=button).first
            await opener.click()
            await page.get_by_role("dialog").wait_for()
            faults += await read(page, button)
            inside = await page.evaluate("!!document.activeElement?.closest('[role=dialog]')")
            faults += [] if inside else [f"{button}: the focus is not in the dialog"]
            await page.keyboard.press("Escape")
            await page.get_by_role("dialog").wait_for(state="detached")
            await expect(opener, "whoever closes it goes on where they were").to_be_focused()
        await page.goto(f"{stage.url}requests")
        await page.get_by_role("button", name="Range of time").click()
        await page.get_by_role("button", name="Show this range").wait_for()
        faults += await read(page, "range of time")
        await page.keyboard.press("Escape")
        await page.keyboard.press("Control+k")
        await page.get_by_role("option").first.wait_for()
        faults += await read(page, "search")
    assert not faults, "\n".join(faults)


async def read(page: Page, label: str) -> list[str]:
    await page.evaluate(AXE.read_text())
    return [f"{label}: {fault}" for fault in await page.evaluate(CHECK)]
