"""An endpoint that hears of what happens: made, tried, told of a finished export, and told again, by keyboard alone."""

from __future__ import annotations

import asyncio
import json

from openai import OpenAI

from gateway.events import Event, EventType, announce
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
        await taken(receiver, tried + 2)
        assert receiver.taken[tried + 1].id == told.id
        await hand.activate("Log")
        await hand.see("Attempt 1")


async def test_a_tenants_own_endpoint(stage: Stage) -> None:
    """The tenant's owner makes it, tries it, hears of what concerns the tenant alone, and rotates its secret."""
    gateway = stage.gateway
    mine, other = await gateway.tenant("Acme"), await gateway.tenant("Globex")
    projects = [{"id": mine.id, "role": "owner"}]
    asked = {"email": "ann@example.com", "role": "member", "projects": projects}
    invite = await gateway.admin("POST", "/invites", asked)
    async with serve_receiver() as receiver, open_browser() as context:
        hand = Hand(await context.new_page())
        await hand.accept(gateway, invite)
        await hand.see_heading("Acme")
        secret = await make_endpoint(hand, receiver, "budget.exhausted")
        await hand.activate("Test")
        await hand.see("Ops answered 200")
        for tenant in (other, mine):
            await announced(stage, "budget.exhausted", tenant.id)
        await taken(receiver, 2)
        told = receiver.taken[1]
        await (
            hand.page.get_by_role("row")
            .filter(has_text="budget.exhausted")
            .filter(has_text="Delivered")
            .wait_for()
        )
        assert json.loads(told.body)["data"] == {"project_id": mine.id}
        OpenAI(api_key="none", webhook_secret=secret).webhooks.verify_signature(
            told.body.decode(), told.headers
        )
        await hand.activate("Replay")
        await hand.see("It is sent again, under the same id")
        await taken(receiver, 3)
        assert receiver.taken[2].id == told.id, "the other tenant's event went nowhere"
        await hand.activate("Rotate secret")
        await hand.see("Sign with both secrets for 24 hours")
        await hand.to("Rotate secret")
        await hand.press("Enter")
        shown = hand.page.get_by_label("The signing secret")
        await shown.wait_for()
        assert await shown.inner_text() != secret


async def announced(stage: Stage, kind: EventType, tenant_id: str | None) -> None:
    app = stage.gateway.app
    event = Event(kind, tenant_id, f"{kind}:{tenant_id}", {"project_id": tenant_id}, app.clock.now())
    async with app.database.transaction() as connection:
        await announce(connection, [event])


async def taken(receiver: Receiver, count: int) -> None:
    async with asyncio.timeout(60):
        while len(receiver.taken) < count:  # noqa: ASYNC110  (the condition is at the other end)
            await asyncio.sleep(0.05)


async def make_endpoint(hand: Hand, receiver: Receiver, kind: str = "export.finished") -> str:
    """Its signing secret. The operator's, or of the tenant whose page is open."""
    if kind == "export.finished":
        await hand.jump("Objectives & alerts")
    await hand.activate("Webhooks")
    await hand.activate("New endpoint")
    await hand.see("Hears of")
    await hand.see(kind)
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


async def test_a_viewer_reads_and_changes_nothing(stage: Stage) -> None:
    gateway = stage.gateway
    async with serve_receiver() as receiver, open_browser() as context:
        asked = {"name": "Ops", "url": receiver.url, "event_types": ["export.finished"]}
        made = await gateway.admin("POST", "/webhook_endpoints", asked)
        await gateway.admin(
            "POST", f"/webhook_endpoints/{made['id']}/test", {"event_type": "export.finished"}
        )
        await announced(stage, "export.finished", None)
        await taken(receiver, 2)
        hand = Hand(await context.new_page())
        invite = await gateway.admin("POST", "/invites", {"email": "ann@example.com", "role": "viewer"})
        await hand.accept(gateway, invite)
        await hand.see_heading("Overview")
        await hand.jump("Objectives & alerts")
        await hand.activate("Webhooks")
        await hand.page.get_by_role("table", name="Endpoints").get_by_text("Ops").wait_for()
        deliveries = hand.page.get_by_role("table", name="Deliveries")
        await deliveries.get_by_text("Delivered").first.wait_for()
        for name in ("New endpoint", "Test", "Change", "Rotate secret", "Delete", "Replay"):
            assert await hand.page.get_by_role("button", name=name).count() == 0, name
        await hand.activate("Log")
        await hand.see("Attempt 1")
