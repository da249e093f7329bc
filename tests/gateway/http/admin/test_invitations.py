"""An invite from its link to the first page: mailed if there is a server for it, shown once if there is none."""

from __future__ import annotations

import re
from pathlib import Path

from tests.gateway.alerts.mailserver import Mailbox, serve_mail
from tests.gateway.http.admin.browser import PASSWORD, Browser, invited
from tests.harness import Gateway

INVITE = {"email": "new@example.com", "role": "viewer"}


async def test_the_link_is_shown_once(gateway: Gateway) -> None:
    made = await gateway.admin("POST", "/invites", INVITE)
    link, _, token = made["accept_url"].partition("#")
    assert (link, made["mailed"]) == (f"{gateway.url}/console/accept-invite", False)
    for again in (
        await gateway.admin("GET", f"/invites/{made['id']}"),
        await gateway.admin("GET", "/invites"),
        await gateway.admin("GET", "/audit_logs"),
    ):
        assert token not in str(again)
    found = await Browser(gateway).json("POST", "/invitations/lookup", {"token": token})
    assert (found["email"], found["role"]) == ("new@example.com", "viewer")
    fresh = await gateway.admin("POST", f"/invites/{made['id']}/link")
    await Browser(gateway).json("POST", "/invitations/lookup", {"token": token}, status=404)
    browser = Browser(gateway)
    body = {"token": fresh["accept_url"].partition("#")[2], "name": "New", "password": PASSWORD}
    assert (await browser.json("POST", "/invitations/accept", body))["user"]["role"] == "viewer"
    assert (await browser.json("GET", "/me"))["user"]["name"] == "New"
    await gateway.admin("POST", f"/invites/{made['id']}/link", status=409)


async def test_inviting_by_session_is_for_owners(gateway: Gateway) -> None:
    owner, admin = await invited(gateway), await invited(gateway, "admin", "adm@example.com")
    assert (await owner.json("POST", "/invites", INVITE))["accept_url"].startswith(gateway.url)
    await admin.json("POST", "/invites", INVITE, status=403)


async def test_the_link_is_mailed_and_then_not_shown(
    database_url: str, cache_url: str, tmp_path: Path
) -> None:
    mailbox = Mailbox()
    async with serve_mail(mailbox) as port:
        mail = {"host": "127.0.0.1", "port": port, "tls": "none"}
        async with Gateway(database_url, cache_url, tmp_path, mail=mail) as gateway:
            made = await gateway.admin("POST", "/invites", INVITE)
            assert (made["accept_url"], made["mailed"], made["mail_error"]) == (None, True, None)
            [(to, letter)] = mailbox.taken
            assert to == "new@example.com"
            text = letter.get_content()
            assert "X-Tollway-Event" not in letter
            [token] = re.findall(r"#(ti-\S+)", text)
            await Browser(gateway).json("POST", "/invitations/lookup", {"token": token})
            mailbox.answers.append("550 no")
            made = await gateway.admin("POST", "/invites", {**INVITE, "email": "b@example.com"})
            assert made["accept_url"] is not None, "what cannot be mailed is shown"
            assert (made["mailed"], made["mail_error"]) == (False, "550 no")
