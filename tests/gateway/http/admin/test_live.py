"""The stream of hints, as browsers read it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

import gateway.http.admin.live as module
from tests.gateway.http.admin.browser import ROOT, Browser, invited
from tests.harness import Gateway

PATIENCE_S = 60.0
ALERT = (
    "INSERT INTO alert_record (id, type, tenant_id, payload, occurred_at) VALUES ($1, 't', $2, '{}', now())"
)


class Stream:
    """Events as (kind, topics); `last` is what a browser would come back with."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer, self.last = answer, ""

    async def next(self) -> tuple[str, list[str]]:
        found: dict[str, str] = {}
        async with asyncio.timeout(PATIENCE_S):
            while line := await self.answer.content.readline():
                name, _, value = line.decode().rstrip("\n").partition(": ")
                found[name] = value
                if name == "" and "event" in found:
                    self.last = found["id"]
                    return found["event"], json.loads(found["data"])["topics"]
        return "over", []

    async def until(self, topic: str) -> None:
        """Other pages' changes come too."""
        while topic not in (event := await self.next())[1]:
            assert event[0] == "change"


@asynccontextmanager
async def streamed(browser: Browser, last: str | None = None) -> AsyncIterator[Stream]:
    headers = {"cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items())}
    headers |= {"last-event-id": last} if last is not None else {}
    answer = await browser.gateway.request("GET", f"{ROOT}/live", headers=headers)
    assert answer.status == 200, await answer.text()
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    try:
        yield Stream(answer)
    finally:
        answer.close()


async def test_changes_come_and_who_comes_back_is_told_what_was_missed(gateway: Gateway) -> None:
    browser = await invited(gateway)
    async with streamed(browser) as stream:
        await gateway.sql(ALERT, "alert_1", None)
        await stream.until("alerts")
        last = stream.last
    await gateway.sql(ALERT, "alert_2", None)
    async with streamed(browser, last) as stream:
        await stream.until("alerts")
    async with streamed(browser, "another-run.5") as stream:
        assert (await stream.next())[0] == "reset"


async def test_members_are_told_of_their_own_and_of_what_they_may_read(gateway: Gateway) -> None:
    mine, other = await gateway.tenant("mine"), await gateway.tenant("other")
    member = await invited(gateway, "member", **{mine.id: "member"})
    rollup = (
        "INSERT INTO rollup_minute VALUES (date_trunc('minute', now()), $1, $2, 'm', 'p', 'e', 'c', 'ok',"
        " 1, 0, 0, 0, 0, 0, 0, 0, 0)"
    )
    owner = await invited(gateway, email="owner@example.com")
    async with streamed(member) as stream, streamed(owner) as all_:
        await gateway.sql(rollup, other.id, "k")
        await gateway.sql(ALERT, "alert_1", mine.id)
        await all_.until("usage")
        await gateway.sql(ALERT, "alert_2", mine.id)
        await all_.until("alerts")  # by now the member's stream has met all of it
        await gateway.sql(rollup, mine.id, "k")
        assert await stream.next() == ("change", ["usage"])
        answer = await member.json("GET", "/me")
        assert "GET /alerts" not in answer["may"]


async def test_a_stream_ends_with_its_session(gateway: Gateway) -> None:
    browser, other = await invited(gateway), Browser(gateway)
    await other.login("ann@example.com")
    async with streamed(browser) as stream:
        await other.json("POST", "/sessions/logout_everywhere")
        await gateway.refresh()
        kind = ""
        while kind not in ("end", "over"):
            kind, _ = await stream.next()
        assert kind == "end"
        assert await stream.next() == ("over", [])


async def test_streams_are_bounded(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STREAMS_OF_ONE_MAX", 1)
    browser, other = await invited(gateway), await invited(gateway, email="bob@example.com")
    async with streamed(browser), streamed(other):
        refused = await gateway.request("GET", f"{ROOT}/live", headers=_cookies(browser))
        assert refused.status == 503
        assert int(refused.headers["retry-after"]) >= 1
    await _opened_again(gateway, browser)


async def _opened_again(gateway: Gateway, browser: Browser) -> None:
    """Once the server has noticed that the page is gone."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await gateway.request("GET", f"{ROOT}/live", headers=_cookies(browser))
            answer.close()
            if answer.status == 200:
                return
            await asyncio.sleep(0.1)


def _cookies(browser: Browser) -> dict[str, Any]:
    return {"cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items())}


async def test_a_stream_is_short(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a gateway that drains does not wait for pages that stay open."""
    monkeypatch.setattr(module, "STREAM_S", 0.0)
    async with streamed(await invited(gateway)) as stream:
        assert await stream.next() == ("over", [])
