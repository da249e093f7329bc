"""Single sign-on with a real provider on loopback: an owner sets it up, and comes in by it; who is not known stays outside."""

from __future__ import annotations

from tests.console.browser.stage import EMAIL, Hand, Stage, open_browser
from tests.fakes.provider import CLIENT, SECRET, FakeProvider

CALLBACK = "/v1/organization/sessions/oidc/callback"


async def test_an_owner_sets_it_up_and_comes_in_by_it(stage: Stage) -> None:
    async with FakeProvider(stage.gateway.url + CALLBACK) as provider:
        async with open_browser() as context:
            hand = Hand(await context.new_page())
            await hand.sign_in(stage.url)
            await set_it_up(hand, provider)
        async with open_browser("dark") as context:
            hand = Hand(await context.new_page())
            await hand.page.goto(stage.url)
            await hand.activate("Continue with Acme")
            await hand.see("Nobody here has your address")
            provider.person["email"] = EMAIL
            await hand.activate("Continue with Acme")
            await hand.see_heading("Overview")
            await hand.page.goto(f"{stage.url}settings?tab=you")
            sessions = hand.page.get_by_role("table", name="Sessions")
            await sessions.get_by_text("Oidc").wait_for()
            assert EMAIL in await hand.page.locator("main").inner_text()


async def set_it_up(hand: Hand, provider: FakeProvider) -> None:
    await hand.jump("Settings")
    await hand.activate("Single sign-on")
    await hand.see("Issuer")
    for field, value in (
        ("Name", "Acme"),
        ("Issuer", provider.issuer),
        ("Client id", CLIENT),
        ("Client secret", SECRET),
    ):
        await hand.to(field)
        await hand.type(value)
    await hand.press("Enter")
    await hand.page.get_by_role("button", name="Remove…").wait_for()
