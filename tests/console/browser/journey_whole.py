"""The whole of it, in both themes, with the keyboard alone: first sign-in, a tenant and its key, a chat, its cost and its
promise, a budget that is exceeded, the alert and its delivery to a real receiver, a pool that is rolled, a month that is
exported."""

from __future__ import annotations

import pytest
from openai import OpenAI

from tests.console.browser.journey_budget import (
    EXHAUSTED,
    see_the_alert,
    see_the_delivery,
    set_a_budget,
    spend_it,
    taken,
)
from tests.console.browser.journey_operator import (
    chat,
    export_a_month,
    make_tenant,
    roll_the_pool,
    see_its_cost,
)
from tests.console.browser.journey_webhooks import make_endpoint
from tests.console.browser.stage import Hand, Stage, open_browser
from tests.gateway.alerts.webhooks.receiver import serve_receiver
from tests.harness import SERVED


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_the_first_hour(stage: Stage, theme: str) -> None:
    async with serve_receiver() as receiver, open_browser(theme) as context:
        page = await context.new_page()
        hand = Hand(page)
        await hand.sign_in(stage.url)
        assert await page.evaluate("document.documentElement.dataset.theme") == theme
        await make_tenant(hand)
        request_id = await chat(hand)
        await see_its_cost(hand, request_id, stage)
        await see_its_promise(hand)
        secret = await make_endpoint(hand, receiver)
        await hand.jump("Acme")
        await set_a_budget(hand)
        await spend_it(hand, stage, None, before=1)
        await see_the_alert(hand)
        told = await taken(receiver, EXHAUSTED)
        await see_the_delivery(hand)
        OpenAI(api_key="none", webhook_secret=secret).webhooks.verify_signature(
            told.body.decode(), told.headers
        )
        await roll_the_pool(hand, stage)
        await export_a_month(hand)


async def see_its_promise(hand: Hand) -> None:
    await hand.jump("Acme")
    await hand.activate("SLO")
    promises = hand.page.get_by_role("table", name="Promises, worst first")
    line = promises.get_by_role("row").filter(has_text=SERVED)
    await line.wait_for()
    assert "Kept" in await line.inner_text()
    assert "100 %" in await line.inner_text(), "nothing of the budget is used up"
