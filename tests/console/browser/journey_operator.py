"""What an operator does in their first hour, step by step, with the keyboard alone; journey_whole.py walks it."""

from __future__ import annotations

from tests.console.browser.stage import Hand, Stage, open_browser
from tests.harness import SERVED


async def make_tenant(hand: Hand) -> str:
    await hand.jump("Tenants")
    await hand.activate("New tenant")
    await hand.see("First key’s name")
    await hand.to("Name")
    await hand.type("Acme")
    await hand.press("Enter")
    shown = hand.page.get_by_label("The new key")
    await shown.wait_for()
    key = await shown.inner_text()
    assert key.startswith("tw-")
    for language, word in (("curl", "curl http"), ("TypeScript", "new OpenAI")):
        await hand.activate(language)
        await hand.see(word)
        assert key in await hand.page.locator("pre").inner_text()
    await hand.activate("Open Acme")
    await hand.see_heading("Acme")
    return key


async def chat(hand: Hand) -> str:
    """The request's id."""
    await hand.jump("Playground")
    await hand.choose("Who pays", "Acme")
    await say(hand, "one two three")
    await hand.see("What it cost")
    first_token = hand.page.locator("dl", has_text="First token").locator("dd").first
    assert (await first_token.inner_text()).endswith("s")
    link = await hand.page.get_by_role("link", name="What it cost").get_attribute("href")
    assert link is not None
    return link.rpartition("/")[2]


async def say(hand: Hand, text: str) -> None:
    await hand.to("Message")
    await hand.type(text)
    await hand.press("Enter")


async def see_its_cost(hand: Hand, request_id: str, stage: Stage) -> None:
    await stage.gateway.events(count=1, within_s=60)
    await hand.activate("What it cost")
    await hand.see_heading("Request")
    await hand.see("Charged")
    assert request_id in await hand.page.locator("main").inner_text()
    bill = hand.page.get_by_role("table", name="Cost")
    [event] = await stage.gateway.events()
    exact = f"${event['amount_nanousd'] / 1e9:.9f}".rstrip("0")
    assert exact in await bill.inner_text()


async def roll_the_pool(hand: Hand, stage: Stage) -> None:
    await hand.jump("Pools")
    await hand.activate("main")
    await hand.see_heading("main")
    await hand.activate("Change or roll…")
    await hand.to("Engine flags")
    await hand.type("max-model-len=4096")
    await hand.activate("Save")
    await hand.see("Rolling to generation 2")
    pool = await stage.gateway.admin("GET", f"/pools/{stage.pool_id}")
    assert (pool["generation"], pool["spec"]["flags"]) == (2, {"max-model-len": 4096})


async def export_a_month(hand: Hand) -> None:
    await hand.jump("Usage & cost")
    await hand.activate("Exports")
    await hand.activate("New export")
    await hand.see("First day")
    await hand.activate("Make the export")
    await hand.see("Succeeded")
    async with hand.page.expect_download() as coming:
        await hand.page.keyboard.press("Tab")
        await hand.to_file()
    assert (await coming.value).suggested_filename
    assert await (await coming.value).failure() is None


async def test_revoking_names_what_follows(stage: Stage) -> None:
    async with open_browser() as context:
        page = await context.new_page()
        hand = Hand(page)
        tenant = await stage.gateway.tenant("Acme")
        await stage.gateway.refresh()
        await stage.gateway.client(tenant).chat.completions.create(
            model=SERVED, messages=[{"role": "user", "content": "hi"}]
        )
        await stage.gateway.events(count=1, within_s=60)
        await hand.sign_in(stage.url)
        await hand.jump("Acme")
        await hand.activate("Keys")
        await hand.see("tw-")
        await hand.activate("Revoke")
        await hand.see("in the last 30 days")
        confirm = page.get_by_role("button", name="Revoke key")
        assert await confirm.is_disabled()
        await hand.to("Type “key” to confirm")
        await hand.type("key")
        assert await confirm.is_enabled()
        await hand.press("Enter")
        await hand.see("key is revoked")
        await stage.gateway.refresh()
        answer = await stage.gateway.request("GET", "/v1/models", key=tenant.key)
        assert answer.status == 401
