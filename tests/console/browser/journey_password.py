"""A password is lost: an owner makes a link for somebody, and an owner has a code mailed, by keyboard alone."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.async_api import expect

from tests.console.browser.stage import EMAIL, PASSWORD, Hand, Stage, open_browser, open_stage
from tests.gateway.alerts.mailserver import Mailbox, serve_mail
from tests.gateway.http.admin.browser import Browser

NEW = "another battery staple"


async def test_an_owner_helps_somebody(stage: Stage) -> None:
    invite = await stage.gateway.admin("POST", "/invites", {"email": "ann@example.com", "role": "viewer"})
    async with open_browser("dark") as theirs, open_browser() as ours:
        ann, owner = Hand(await theirs.new_page()), Hand(await ours.new_page())
        await ann.accept(stage.gateway, invite)
        await ann.see_heading("Overview")
        await owner.sign_in(stage.url)
        await owner.jump("Settings")
        people = owner.page.get_by_role("table", name="Users")
        row = people.get_by_role("row").filter(has_text="ann@example.com")
        await row.get_by_role("button", name="New password").focus()
        await owner.press("Enter")
        await owner.activate("Make the link")
        shown = owner.page.get_by_label("The link for a new password")
        await shown.wait_for()
        await ann.page.goto(await shown.inner_text())
        await ann.page.get_by_label("New password").wait_for()
        await ann.to("New password")
        await ann.type(NEW)
        await ann.press("Enter")
        await ann.see_heading("Overview")
        log = (await stage.gateway.admin("GET", "/audit_logs?event_types=user.password_link_made"))["data"]
        assert len(log) == 1
        await ann.page.goto(await shown.inner_text())
        await ann.page.reload()
        await ann.see("This link or code is not good any more")


async def test_a_code_is_mailed(database_url: str, cache_url: str, tmp_path: Path) -> None:
    mailbox = Mailbox()
    async with serve_mail(mailbox) as port:
        mail: dict[str, object] = {"host": "127.0.0.1", "port": port, "tls": "none"}
        async with (
            open_stage(database_url, cache_url, tmp_path, mail=mail) as stage,
            open_browser() as context,
        ):
            hand = Hand(await context.new_page())
            await hand.page.goto(stage.url)
            await hand.activate("Forgot your password?")
            await hand.page.get_by_label("Email").wait_for()
            await hand.to("Email")
            await hand.type(EMAIL)
            await hand.press("Enter")
            await hand.page.get_by_label("Code from the mail").wait_for()
            await expect(hand.page.get_by_label("Email")).to_have_value(EMAIL)
            while not mailbox.taken:  # it is mailed after the answer
                await hand.page.wait_for_timeout(50)
            [(to, letter)] = mailbox.taken
            [code] = re.findall(r"tr-\S+", letter.get_content())
            await hand.to("Code from the mail")
            await hand.type(code)
            await hand.to("New password")
            await hand.type(NEW)
            await hand.press("Enter")
            await hand.see_heading("Overview")
            assert to == EMAIL
            old = {"email": EMAIL, "password": PASSWORD}
            await Browser(stage.gateway).json("POST", "/sessions", old, status=401)  # it is worth nothing
