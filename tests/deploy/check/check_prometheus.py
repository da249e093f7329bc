"""A real Prometheus scrapes a whole stack, answers every panel, and tells of a queue that is provoked. A part of
`make deploy-check`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from gateway.local.up import SERVED_MODEL
from tests.deploy.metrics import engine_metrics
from tests.deploy.test_dashboards import NAMES, expressions
from tests.deploy.test_rules import RULES
from tests.e2e.conftest import Stack, home, stack, tiny_model, until
from tests.ports import keep_port

__all__ = ["home", "stack", "tiny_model"]

CALLERS = 120
"""More than the engine takes at once, and fifty more that wait."""


class Prometheus:
    def __init__(self, url: str) -> None:
        self.url = url

    async def ask(self, path: str, **query: str) -> Any:
        text = urllib.parse.urlencode(query)

        def read() -> Any:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{text}", timeout=30) as answer:
                return json.load(answer)

        answer = await asyncio.to_thread(read)
        assert answer["status"] == "success", answer
        return answer["data"]

    async def value(self, query: str) -> float:
        found = (await self.ask("query", query=query))["result"]
        return sum(float(one["value"][1]) for one in found)

    async def firing(self) -> set[str]:
        alerts = (await self.ask("alerts"))["alerts"]
        return {one["labels"]["alertname"] for one in alerts if one["state"] == "firing"}


def configuration(stack: Stack) -> dict[str, Any]:
    """The example's jobs, at this stack's addresses. The gateway has no port for metrics here: a key opens them."""
    gateway = urllib.parse.urlsplit(stack.env["OPENAI_BASE_URL"]).netloc
    engine = urllib.parse.urlsplit(stack.env["TOLLWAY_ENGINE_URL"]).netloc
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [
            {
                "job_name": "tollway-gateway",
                "authorization": {"credentials": stack.env["OPENAI_ADMIN_KEY"]},
                "static_configs": [{"targets": [gateway]}],
            },
            {"job_name": "tollway-engine", "static_configs": [{"targets": [engine]}]},
        ],
    }


@pytest.fixture
def prometheus(stack: Stack, tmp_path: Path) -> Iterator[Prometheus]:
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(configuration(stack)), encoding="utf-8")
    with keep_port() as keeper:
        address = f"127.0.0.1:{keeper.getsockname()[1]}"
    command = ["prometheus", f"--config.file={tmp_path}/prometheus.yaml", f"--web.listen-address={address}"]
    with (tmp_path / "prometheus.log").open("w") as log:
        process = subprocess.Popen([*command, f"--storage.tsdb.path={tmp_path}/data"], stderr=log)
    try:
        yield Prometheus(f"http://{address}")
    finally:
        process.terminate()
        process.wait()


@asynccontextmanager
async def queue(stack: Stack) -> AsyncIterator[None]:
    """Callers of the engine who never let it rest."""

    async def caller(http: aiohttp.ClientSession) -> None:
        body = {"model": SERVED_MODEL, "prompt": "the quick brown fox", "max_tokens": 200, "ignore_eos": True}
        while True:
            async with http.post(stack.env["TOLLWAY_ENGINE_URL"] + "/v1/completions", json=body) as answer:
                assert answer.status == 200, await answer.text()
                await answer.read()

    connector = aiohttp.TCPConnector(limit=CALLERS)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as http:
        callers = [asyncio.create_task(caller(http)) for _ in range(CALLERS)]
        try:
            yield
            broken = [one for one in callers if one.done()]
            assert not broken, broken
        finally:
            for one in callers:
                one.cancel()
            await asyncio.gather(*callers, return_exceptions=True)


async def test_a_queue_that_is_provoked_is_told(stack: Stack, prometheus: Prometheus) -> None:
    async def scraped() -> bool:
        with contextlib.suppress(OSError):
            return await prometheus.value('sum(up{job=~"tollway-(gateway|engine)"})') == 2
        return False

    async def told() -> bool:
        return "TollwayQueueHigh" in await prometheus.firing()

    async def over() -> bool:
        return "TollwayQueueHigh" not in await prometheus.firing()

    await until(scraped)
    assert not await told()
    async with queue(stack):
        await until(told)
        assert await prometheus.value("max(vllm:num_requests_waiting)") > 50
    await until(over)

    health = (await prometheus.ask("rules"))["groups"]
    ill = [rule["name"] for group in health for rule in group["rules"] if rule["health"] == "err"]
    assert ill == []
    for name in NAMES:
        for expression in expressions(name):
            await prometheus.ask("query", query=re.sub(r'"value"', '".*"', expression))
    names = set(await prometheus.ask("label/__name__/values"))
    assert set(engine_metrics()) <= names
    assert await prometheus.value("sum(vllm:generation_tokens_total)") > 0
