"""A browser at the console, as far as the server can tell: its cookies, its Origin, the console's header."""

from __future__ import annotations

from http.cookies import SimpleCookie
from typing import Any

import aiohttp

from tests.harness import Gateway

ROOT = "/v1/organization"
PASSWORD = "correct horse battery"


class Browser:
    """`headers` go with every request; the names of its cookies are as the server set them."""

    def __init__(self, gateway: Gateway, **headers: str) -> None:
        self.gateway = gateway
        self.headers = {"origin": gateway.url, "x-tollway-console": "1"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        self.cookies: dict[str, str] = {}
        self.set_cookies: list[str] = []

    async def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str | None] | None = None
    ) -> aiohttp.ClientResponse:
        sent = self.headers | ({"cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items())})
        for name, value in (headers or {}).items():
            sent.pop(name, None)
            if value is not None:
                sent[name] = value
        answer = await self.gateway.request(method, ROOT + path, body, headers=sent)
        self.keep(answer)
        body = await answer.read()
        self.gateway.description.check(
            method, (ROOT + path).partition("?")[0], answer.status, answer.headers["content-type"], body
        )
        return answer

    def keep(self, answer: aiohttp.ClientResponse) -> None:
        """The answer's cookies."""
        self.set_cookies = answer.headers.getall("set-cookie", [])
        for line in self.set_cookies:
            for name, morsel in SimpleCookie(line).items():
                self.cookies[name] = morsel.value
                if morsel["max-age"] == "0":
                    del self.cookies[name]

    async def json(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        answer = await self.send(method, path, body)
        assert answer.status == status, (answer.status, await answer.text())
        return await answer.json()

    async def login(self, email: str, password: str = PASSWORD) -> Any:
        return await self.json("POST", "/sessions", {"email": email, "password": password})


async def invited(
    gateway: Gateway, role: str = "owner", email: str = "ann@example.com", **projects: str
) -> Browser:
    """Somebody who was invited, has accepted with `PASSWORD`, and is signed in. `projects`: role there by id."""
    there = [{"id": id_, "role": role_there} for id_, role_there in projects.items()]
    made = await gateway.admin("POST", "/invites", {"email": email, "role": role, "projects": there})
    token = made["accept_url"].partition("#")[2]
    browser = Browser(gateway)
    await browser.json("POST", "/invitations/accept", {"token": token, "name": "Ann", "password": PASSWORD})
    return browser
