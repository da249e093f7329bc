"""A lost password: the owner's link, and the code that is mailed, as a browser meets them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from tests.gateway.alerts.mailserver import Mailbox, serve_mail
from tests.gateway.http.admin.browser import PASSWORD, Browser, invited
from tests.harness import Gateway
from tests.patience import LONG_S

NEW = "another battery staple"
ANN = "ann@example.com"


async def user_id(gateway: Gateway, email: str = ANN) -> str:
    [found] = (await gateway.admin("GET", f"/users?emails={email}"))["data"]
    return str(found["id"])


async def test_an_owners_link_gives_a_new_password(gateway: Gateway) -> None:
    ann = await invited(gateway, "viewer")
    made = await gateway.admin("POST", f"/users/{await user_id(gateway)}/password_link")
    link, _, token = made["url"].partition("#")
    assert (link, made["email"]) == (f"{gateway.url}/console/new-password", ANN)
    assert token not in str(await gateway.admin("GET", "/audit_logs"))
    browser = Browser(gateway)
    assert (await browser.json("POST", "/password_resets/lookup", {"token": token}))["email"] == ANN
    body = {"token": token, "password": NEW}
    assert (await browser.json("POST", "/password_resets/accept", body))["user"]["role"] == "viewer"
    assert (await browser.json("GET", "/me"))["user"]["email"] == ANN
    await Browser(gateway).json("POST", "/password_resets/accept", body, status=404)
    await gateway.refresh()
    await ann.json("GET", "/me", status=401)
    await Browser(gateway).login(ANN, NEW)


async def test_links_are_for_owners_to_make(gateway: Gateway) -> None:
    owner, admin = await invited(gateway), await invited(gateway, "admin", "adm@example.com")
    path = f"/users/{await user_id(gateway)}/password_link"
    await admin.json("POST", path, status=403)
    assert (await owner.json("POST", path))["url"].startswith(gateway.url)
    await owner.json("POST", "/users/user_none/password_link", status=404)


async def test_without_a_mail_server_an_owner_helps(gateway: Gateway) -> None:
    browser = Browser(gateway)
    assert (await browser.json("GET", "/sessions/methods"))["password_reset"] == "owner"
    await browser.json("POST", "/password_resets", {"email": ANN}, status=409)


async def test_a_code_is_mailed_and_leads_nowhere(database_url: str, cache_url: str, tmp_path: Path) -> None:
    mailbox = Mailbox()
    async with serve_mail(mailbox) as port:
        mail = {"host": "127.0.0.1", "port": port, "tls": "none"}
        async with Gateway(database_url, cache_url, tmp_path, mail=mail) as gateway:
            made = await gateway.admin("POST", "/invites", {"email": ANN, "role": "viewer"})
            assert made["mailed"]
            browser = Browser(gateway)
            [token] = re.findall(r"#(ti-\S+)", mailbox.taken.pop()[1].get_content())
            accepted = {"token": token, "name": "Ann", "password": PASSWORD}
            await browser.json("POST", "/invitations/accept", accepted)
            assert (await browser.json("GET", "/sessions/methods"))["password_reset"] == "mail"
            answers = [
                await Browser(gateway).json("POST", "/password_resets", {"email": email})
                for email in ("nobody@example.com", ANN)
            ]
            assert answers[0] == answers[1], "whether there is an account is not to be learnt"
            async with asyncio.timeout(LONG_S):
                while not mailbox.taken:  # noqa: ASYNC110  # it is mailed after the answer
                    await asyncio.sleep(0.05)
            [(to, letter)] = mailbox.taken
            assert to == ANN
            text = letter.get_content()
            assert "http" not in text, "the request would have said where a link leads"
            [code] = re.findall(r"tr-\S+", text)
            other = Browser(gateway)
            await other.json("POST", "/password_resets/accept", {"token": code, "password": NEW})
            assert (await other.json("GET", "/me"))["user"]["email"] == ANN


async def test_another_site_cannot_ask(gateway: Gateway) -> None:
    for path in ("/password_resets", "/password_resets/lookup", "/password_resets/accept"):
        answer = await Browser(gateway, origin="https://evil.example").send("POST", path, {"email": ANN})
        assert (answer.status, (await answer.json())["error"]["code"]) == (403, "cross_site_request")
