"""Every page, in both themes and at a phone's width: read by axe, no wider than the screen, no errors, few requests. Its
pictures are left in admin_ui/shots, to be looked at."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, Request, expect

from gateway.pool.samples import SampleRow, write_samples
from gateway.slo.evaluator import Evaluator
from tests.console.browser.history import make_history
from tests.console.browser.stage import Hand, Stage, open_browser
from tests.harness import SERVED

SHOTS = Path(__file__).parents[3] / "admin_ui/shots"
AXE = Path(__file__).parent / "node_modules/axe-core/axe.min.js"
expect.set_options(timeout=60_000)
REQUESTS_MAX = 5
"""Of the API, for a page that is opened from outside: who one is, its own, and the names that it shows."""
LIVE = "/v1/organization/live"
"""The stream that stays open; it is asked for nothing more."""
PAGES = {
    "overview": "/",
    "tenants": "/tenants",
    "tenant": "/tenants/{tenant}",
    "tenant-keys": "/tenants/{tenant}?tab=keys",
    "tenant-limits": "/tenants/{tenant}?tab=limits",
    "tenant-models": "/tenants/{tenant}?tab=models",
    "tenant-usage": "/tenants/{tenant}?tab=usage",
    "tenant-slo": "/tenants/{tenant}?tab=slo",
    "tenant-requests": "/tenants/{tenant}?tab=requests",
    "tenant-webhooks": "/tenants/{tenant}?tab=webhooks",
    "tenant-people": "/tenants/{tenant}?tab=people",
    "tenant-activity": "/tenants/{tenant}?tab=activity",
    "requests": "/requests",
    "request": "/requests/{request}",
    "usage": "/usage?range=7d",
    "usage-hours": "/usage?range=24h&measure=output_tokens&group=model",
    "exports": "/usage?tab=exports",
    "routes": "/models",
    "prices": "/models?tab=prices",
    "pools": "/pools",
    "pool": "/pools/{pool}",
    "board": "/alerts",
    "alerts": "/alerts?tab=alerts",
    "objectives": "/alerts?tab=objectives",
    "webhooks": "/alerts?tab=webhooks",
    "playground": "/playground",
    "audit": "/audit",
    "users": "/settings?tab=users",
    "admin-keys": "/settings?tab=keys",
    "sso": "/settings?tab=sso",
    "you": "/settings?tab=you",
}
CHECK = """async () => {
  const found = await axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]});
  return found.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.target + " " + (node.any[0]?.message ?? "")).join(" | ")}`);
}"""


async def furnish(stage: Stage) -> dict[str, str]:
    """History, a budget, limits; the names of what pages are about."""
    gateway = stage.gateway

    async def admin(method: str, path: str, body: Any = None) -> Any:
        return await gateway.admin(method, path, body)

    tenants = await make_history(admin, gateway.app.database, datetime.now(UTC), stage.pool_id, SERVED)
    first = tenants[0]
    for period, limit in (("monthly", 2_000_000_000), ("daily", 60_000_000)):
        await admin("POST", "/budgets", {"project_id": first, "period": period, "limit_nanousd": limit})
    await admin("POST", f"/projects/{first}/limits", {"served_model": SERVED, "requests_per_min": 60})
    await sample(stage)
    await Evaluator(gateway.app.database, gateway.app.clock).run_once()
    requests = (await admin("GET", f"/requests?project_id={first}&stream=true&status=ok&limit=1"))["data"]
    return {"tenant": first, "pool": stage.pool_id, "request": requests[0]["id"]}


async def sample(stage: Stage) -> None:
    """An hour of a replica's work, as gateways write it down."""
    now = datetime.now(UTC)
    rows = []
    for step in range(120):
        swing = 0.5 + 0.5 * math.sin(step / 9)
        at = now - timedelta(seconds=30 * (120 - step))
        work = round(4 + 20 * swing), round(max(0, 14 * swing - 8)), 0.2 + 0.6 * swing
        rows.append(SampleRow(at, "replica_a", stage.pool_id, *work, 0, 9_000 * step))
    async with stage.gateway.app.database.transaction() as connection:
        await write_samples(connection, rows)


def note(asked: dict[str, int], request: Request) -> None:
    if "/v1/" in request.url and LIVE not in request.url:
        asked[f"{request.method} {request.url}"] = 1


async def walk(page: Page, url: str, names: dict[str, str], label: str, width: int) -> list[str]:
    faults = []
    asked: dict[str, int] = {}  # a page that is live asks again for the same
    page.on("request", lambda request: note(asked, request))
    for name, path in PAGES.items():
        await page.goto("about:blank")
        asked.clear()
        await page.goto(f"{url}{path.format(**names)}")
        await page.locator("main h1").wait_for()
        await expect(page.locator(".skeleton")).to_have_count(0)
        await page.evaluate(AXE.read_text())
        faults += [f"{label} {name}: {fault}" for fault in await page.evaluate(CHECK)]
        if await page.evaluate("document.documentElement.scrollWidth") > width:
            faults.append(f"{label} {name}: wider than the screen")
        if len(asked) > REQUESTS_MAX:
            faults.append(f"{label} {name}: {len(asked)} requests: {[*asked]}")
        await page.screenshot(path=SHOTS / f"{name}-{label}.png", full_page=width < 1000)
    return faults


@pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 1440), ("light", 390), ("dark", 390)])
async def test_every_page(stage: Stage, theme: str, width: int) -> None:
    SHOTS.mkdir(exist_ok=True)
    names = await furnish(stage)
    async with open_browser(theme, width) as context:
        page = await context.new_page()
        said: list[str] = []
        page.on(
            "console",
            lambda message: said.append(message.text) if message.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: said.append(str(error)))
        hand = Hand(page)
        await hand.sign_in(stage.url)
        said.clear()  # nobody was signed in: that was a 401
        faults = await walk(page, f"{stage.gateway.url}/console", names, f"{theme}-{width}", width)
    # A tenant without permissions has none: the API's word for that is 404.
    faults += [one for one in said if "404" not in one]
    assert not faults, "\n".join(faults)
