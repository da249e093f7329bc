"""An endpoint that hears of what happens: made, tried, told of a finished export, and told again, by keyboard alone."""

from __future__ import annotations

import asyncio

from openai import OpenAI

from tests.console.browser.stage import Hand, Stage, open_browser
from tests.gateway.alerts.webhooks.receiver import Receiver, serve_receiver


async def test_an_endpoint_is_told(stage: Stage) -> None:
    async with serve_receiver() as receiver, open_browser("dark") as context:
        hand = Hand(await context.new_page())
        await hand.sign_in(stage.url)
        secret = await make_endpoint(hand, receiver)
        await hand.activate("Test")
        await hand.see("Ops answered 200")
        tried = len(receiver.taken)
        await hand.jump("Usage & cost")
        await hand.activate("Exports")
        await hand.activate("New export")
        await hand.see("First day")
        await hand.activate("Make the export")
        await hand.see("Succeeded")
        await hand.jump("Objectives & alerts")
        await hand.activate("Webhooks")
        await hand.see("export.finished")
        await hand.see("Delivered")
        told = receiver.taken[tried]
        webhooks = OpenAI(api_key="none", webhook_secret=secret).webhooks
        webhooks.verify_signature(told.body.decode(), told.headers)
        await hand.activate("Replay")
        await hand.see("It is sent again, under the same id")
        async with asyncio.timeout(60):
            while len(receiver.taken) < tried + 2:  # noqa: ASYNC110  (the condition is at the other end)
                await asyncio.sleep(0.05)
        assert receiver.taken[tried + 1].id == told.id
        await hand.activate("Log")
        await hand.see("Attempt 1")


async def make_endpoint(hand: Hand, receiver: Receiver) -> str:
    """Its signing secret."""
    await hand.jump("Objectives & alerts")
    await hand.activate("Webhooks")
    await hand.activate("New endpoint")
    await hand.see("Hears of")
    await hand.see("export.finished")
    await hand.to("Name")
    await hand.type("Ops")
    await hand.to("Address")
    await hand.type(receiver.url)
    await hand.press("Enter")
    shown = hand.page.get_by_label("The signing secret")
    await shown.wait_for()
    secret = await shown.inner_text()
    assert secret.startswith("whsec_")
    await hand.activate("Done")
    await hand.see("Enabled")
    return secret
