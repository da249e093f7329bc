"""Money runs out: a budget is set and exceeded, the alert is read, and so is its delivery to a real receiver. All of it in
the console, with the keyboard alone."""

from __future__ import annotations

import asyncio
import json

import pytest
from openai import OpenAI

from tests.console.browser.journey_operator import make_tenant, say
from tests.console.browser.journey_webhooks import make_endpoint
from tests.console.browser.stage import Hand, Stage, open_browser
from tests.fakes.engine import Script
from tests.gateway.alerts.webhooks.receiver import Received, Receiver, serve_receiver

EXHAUSTED = "budget.exhausted"
ANSWER_TOKENS = 1_000
LIMIT_NANOUSD = 1_080_000
"""The harness's prices: 1,000,000 for such an answer, and little for what was asked."""


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_a_budget_is_exceeded_and_somebody_is_told(stage: Stage, theme: str) -> None:
    async with serve_receiver() as receiver, open_browser(theme) as context:
        hand = Hand(await context.new_page())
        await hand.sign_in(stage.url)
        secret = await make_endpoint(hand, receiver)
        key = await make_tenant(hand)
        await set_a_budget(hand)
        await spend_it(hand, stage, key)
        await see_the_alert(hand)
        told = await taken(receiver, EXHAUSTED)
        await see_the_delivery(hand)
    OpenAI(api_key="none", webhook_secret=secret).webhooks.verify_signature(told.body.decode(), told.headers)
    [budget] = (await stage.gateway.admin("GET", "/budgets"))["data"]
    said = json.loads(told.body)["data"]
    assert (said["budget_id"], said["limit_nanousd"]) == (budget["id"], LIMIT_NANOUSD)
    assert LIMIT_NANOUSD * 0.9 <= said["spent_nanousd"] <= LIMIT_NANOUSD, "a hard budget is never passed"


async def set_a_budget(hand: Hand) -> None:
    await hand.activate("Limits & budgets")
    await hand.activate("New budget")
    await hand.see("Limit, US dollars")
    await hand.to("Limit, US dollars")
    await hand.type("0.00108")
    await hand.press("Enter")
    await hand.see("Monthly")


async def spend_it(hand: Hand, stage: Stage, key: str | None, before: int = 0) -> None:
    """Nine tenths with one answer; the next would pass the limit and is refused. `before`: requests that there were."""
    stage.engine.script(Script(tokens=("word",) * ANSWER_TOKENS))
    await hand.jump("Playground")
    if key is None:
        await hand.choose("Who pays", "Acme")
    else:
        await hand.choose("Who pays", "The tenant of a key")
        await hand.to("Tenant’s key")
        await hand.type(key)
    await hand.to("Max tokens")
    await hand.type(str(ANSWER_TOKENS))
    await say(hand, "hello")
    await hand.see("What it cost")
    await stage.gateway.events(count=before + 1, within_s=60)
    await say(hand, "more")
    refusal = hand.page.get_by_role("alert")
    await refusal.wait_for()
    assert "budget" in (await refusal.inner_text()).lower()


async def see_the_alert(hand: Hand) -> None:
    await hand.jump("Objectives & alerts")
    await hand.activate("Alerts")
    await hand.see("Budget exhausted")
    episodes = hand.page.get_by_role("table", name="Episodes")
    await episodes.get_by_text("Budget exhausted").wait_for()
    assert "Acme" in await episodes.inner_text()
    fired = hand.page.get_by_role("table", name="Alerts")
    await fired.get_by_text("Budget exhausted").wait_for()
    assert "limit $0.00108" in await fired.inner_text()


async def see_the_delivery(hand: Hand) -> None:
    await hand.activate("Webhooks")
    line = hand.page.get_by_role("row").filter(has_text=EXHAUSTED).filter(has_text="Delivered")
    await line.wait_for()


async def taken(receiver: Receiver, kind: str) -> Received:
    async with asyncio.timeout(60):
        while True:
            found = [one for one in receiver.taken if json.loads(one.body)["type"] == kind]
            if found:
                return found[0]
            await asyncio.sleep(0.05)
