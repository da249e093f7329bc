"""What a journey needs: a real gateway with its worker, an owner with a password, and a browser at its door.

The engine is the tests' fake one. A journey is walked with the keyboard alone: `Hand` presses keys and looks where the
focus is, as a person does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import BrowserContext, Page, async_playwright

from gateway.clock import SystemClock
from gateway.sessions.commands import put_password
from gateway.worker import run_worker
from tests.console.browser.chromium import FLAGS, find_browser
from tests.fakes.engine import FakeEngine
from tests.harness import Gateway

__all__ = ["EMAIL", "PASSWORD", "Hand", "Stage", "open_browser", "open_stage"]

EMAIL = "owner@example.com"
PASSWORD = "correct horse battery staple"
PATIENCE_MS = 60_000
TABS_MAX = 120
_FOCUSED = """() => {
  const here = document.activeElement;
  if (!here || here === document.body) return "";
  const own = here.getAttribute("aria-label") || (here.labels && here.labels[0]?.innerText);
  return (own || here.innerText || here.getAttribute("placeholder") || "").trim();
}"""


@dataclass(frozen=True, slots=True)
class Stage:
    gateway: Gateway
    engine: FakeEngine
    pool_id: str

    @property
    def url(self) -> str:
        return f"{self.gateway.url}/console/"


@asynccontextmanager
async def open_stage(
    database_url: str, cache_url: str, directory: Path, mail: dict[str, object] | None = None
) -> AsyncIterator[Stage]:
    exports = {"destination": str(directory / "exports")}
    security = {"key_pepper": "pepper-of-the-journeys-0123456789", "webhook_allowed_cidrs": ["127.0.0.0/8"]}
    async with (
        FakeEngine() as engine,
        Gateway(
            database_url, cache_url, directory, exports=exports, security=security, mail=mail or {}
        ) as gateway,
    ):
        pool_id = await gateway.pool(engine, name="main")
        await gateway.route(pool_id)
        await gateway.refresh()
        await gateway.poll()
        [owner] = (await gateway.admin("GET", "/users"))["data"]
        await put_password(
            gateway.app.database, gateway.app.master, SystemClock(), owner["id"], PASSWORD, EMAIL
        )
        worker = asyncio.create_task(run_worker(gateway.settings))
        try:
            yield Stage(gateway, engine, pool_id)
        finally:
            worker.cancel()
            with suppress(asyncio.CancelledError):
                await worker


@asynccontextmanager
async def open_browser(
    theme: str = "light", width: int = 1440, height: int = 900
) -> AsyncIterator[BrowserContext]:
    found = find_browser()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=found.path, args=[*FLAGS], env={**found.environment}
        )
        context = await browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if theme == "dark" else "light",
            reduced_motion="reduce",
            locale="en-GB",
            timezone_id="Europe/Berlin",
            accept_downloads=True,
        )
        context.set_default_timeout(PATIENCE_MS)
        yield context
        await browser.close()


class Hand:
    """Presses keys. `page` is for looking only."""

    def __init__(self, page: Page) -> None:
        self.page = page

    async def sign_in(self, url: str) -> None:
        await self.page.goto(url)
        await self.page.get_by_label("Password").wait_for()
        await self.to("Email")
        await self.type(EMAIL)
        await self.to("Password")
        await self.type(PASSWORD)
        await self.press("Enter")
        await self.see_heading("Overview")

    async def accept(self, gateway: Gateway, invite: dict[str, str]) -> None:
        """Becomes the person who was invited."""
        await self.page.goto(gateway.url + "/console/" + invite["accept_url"].partition("/console/")[2])
        await self.page.get_by_label("Your name").wait_for()
        await self.to("Your name")
        await self.type("Ann")
        await self.to("Password")
        await self.type(PASSWORD)
        await self.press("Enter")

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.page.keyboard.press(key)

    async def type(self, text: str) -> None:
        """In place of what the field holds."""
        await self.press("Control+a")
        await self.page.keyboard.type(text)

    async def focused(self) -> str:
        return str(await self.page.evaluate(_FOCUSED))

    async def to(self, name: str) -> None:
        """Tab until the focus is on what has this name, or begins with it."""
        seen = []
        for _ in range(TABS_MAX):
            now = await self.focused()
            if now == name or now.split("\n")[0].startswith(name):
                return
            seen.append(now.split("\n")[0])
            await self.press("Tab")
        shown = await self.page.locator("main").inner_text()
        raise AssertionError(f"the keyboard never reached {name!r}, only {sorted(set(seen))}, in:\n{shown}")

    async def activate(self, name: str) -> None:
        await self.page.get_by_text(name).first.wait_for()
        await self.to(name)
        await self.press("Enter")

    async def jump(self, text: str, heading: str | None = None) -> None:
        """Through the search."""
        await self.press("Control+k")
        await self.page.get_by_role("combobox", name="Tenant, model").wait_for()
        await self.page.keyboard.type(text)
        await self.page.get_by_role("option", name=text).first.wait_for()
        await self.press("Enter")
        await self.see_heading(heading or text)

    async def choose(self, name: str, option: str) -> None:
        """Of a list that opens: letters lead to what begins with them."""
        await self.page.locator("option", has_text=option).first.wait_for(state="attached")
        await self.to(name)
        await self.page.keyboard.type(option)
        await self.press("Tab")

    async def see_heading(self, text: str) -> None:
        await self.page.get_by_role("heading", name=text, exact=True, level=1).wait_for()

    async def see(self, text: str) -> None:
        await self.page.get_by_text(text).first.wait_for()

    async def to_file(self) -> None:
        """The button of a file is named by its size."""
        for _ in range(TABS_MAX):
            if await self.page.evaluate("document.activeElement?.title?.includes('sha256') ?? false"):
                await self.press("Enter")
                return
            await self.press("Tab")
        raise AssertionError("the keyboard never reached a file")
