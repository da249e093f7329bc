"""The nginx example: `nginx -t`, and streams through a real one to two gateways. A part of `make deploy-check`."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.certificates import Authority
from tests.fakes.engine import FakeEngine, Script
from tests.harness import SERVED, Gateway, Tenant
from tests.ports import keep_port
from tests.tidy.tree import ROOT

CONFIG = ROOT / "deploy/nginx/nginx.conf"
NAME = "llm.example.com"
WORDS = tuple(f"word{number}" for number in range(12))


@dataclass(frozen=True)
class Through:
    url: str
    trust: ssl.SSLContext
    gateways: tuple[Gateway, Gateway]
    engine: FakeEngine
    tenant: Tenant

    async def stream(self, http: aiohttp.ClientSession) -> tuple[str, bool]:
        """The text, and whether the engine was still at it when the first piece came."""
        body = {"model": SERVED, "stream": True, "messages": [{"role": "user", "content": "say it"}]}
        headers = {"authorization": f"Bearer {self.tenant.key}"}
        text, was_running = "", False
        async with self.post(http, "/v1/chat/completions", json=body, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            async for line in answer.content:
                if not line.startswith(b"data: {"):
                    continue
                for choice in json.loads(line[6:])["choices"]:
                    piece = choice["delta"].get("content") or ""
                    was_running = was_running or (bool(piece) and self.engine.running > 0)
                    text += piece
        return text, was_running

    def post(self, http: aiohttp.ClientSession, path: str, **options: Any) -> Any:
        return http.post(self.url + path, ssl=self.trust, server_hostname=NAME, **options)

    def served(self) -> list[int]:
        """Requests that each gateway has answered."""
        return [
            sum(
                int(sample.value)
                for metric in gateway.app.metrics.requests.collect()
                for sample in metric.samples
                if sample.name.endswith("_total") and sample.labels["endpoint"] == "chat.completions"
            )
            for gateway in self.gateways
        ]


def settled(text: str, directory: Path, port: int, gateways: tuple[str, str]) -> str:
    """The example with names and places of this machine; nothing else is changed."""
    changes = {
        "pid /run/nginx.pid;": f"pid {directory}/nginx.pid;",
        "listen 443 ssl http2;": f"listen 127.0.0.1:{port} ssl http2;",
        "/etc/nginx/tls/tls.crt": f"{directory}/{NAME}.pem",
        "/etc/nginx/tls/tls.key": f"{directory}/{NAME}.pem",
        "gateway-1:8080": gateways[0],
        "gateway-2:8080": gateways[1],
    }
    for there, here in changes.items():
        assert there in text, there
        text = text.replace(there, here)
    paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    temporary = "".join(f"    {name}_temp_path {directory}/{name};\n" for name in paths)
    return text.replace("http {\n", f"http {{\n{temporary}", 1)


@contextmanager
def running(config: Path, directory: Path) -> Iterator[None]:
    user = ["-g", f"user {'root' if os.geteuid() == 0 else 'nobody'}; daemon off;"]
    tested = subprocess.run(
        ["nginx", "-t", "-c", str(config), "-p", str(directory)], capture_output=True, text=True
    )
    assert tested.returncode == 0, tested.stderr
    process = subprocess.Popen(["nginx", "-c", str(config), "-p", str(directory), *user])
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@asynccontextmanager
async def through_nginx(database_url: str, cache_url: str, directory: Path) -> AsyncIterator[Through]:
    authority = Authority.made()
    authority.server(directory, NAME)
    trust = ssl.create_default_context(cadata=authority.pem)
    with keep_port() as keeper:
        port = keeper.getsockname()[1]
    first = Gateway(
        database_url, cache_url, directory, "gw-1", server={"trusted_proxy_cidrs": ("127.0.0.0/8",)}
    )
    second = Gateway(
        database_url, cache_url, directory, "gw-2", server={"trusted_proxy_cidrs": ("127.0.0.0/8",)}
    )
    async with FakeEngine() as engine, first:
        tenant = await first.serve(engine)
        second.admin_key = first.admin_key
        async with second:
            await second.refresh()
            config = directory / "nginx.conf"
            addresses = (first.url.removeprefix("http://"), second.url.removeprefix("http://"))
            config.write_text(settled(CONFIG.read_text(encoding="utf-8"), directory, port, addresses))
            with running(config, directory):
                await _answers(port)
                yield Through(f"https://127.0.0.1:{port}", trust, (first, second), engine, tenant)


async def _answers(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


async def test_streams_pass_as_they_come_and_both_gateways_work(
    database_url: str, cache_url: str, tmp_path: Path
) -> None:
    async with through_nginx(database_url, cache_url, tmp_path) as it, aiohttp.ClientSession() as http:
        it.engine.default = Script(tokens=WORDS, token_delay_s=0.3)
        answers = await asyncio.gather(*(it.stream(http) for _ in range(16)))
        assert {text for text, _ in answers} == {" ".join(WORDS)}
        assert all(was_running for _, was_running in answers), "held back until the end"
        assert sum(it.served()) == 16
        assert min(it.served()) >= 4, it.served()
        async with it.post(http, "/metrics") as answer:
            assert answer.status == 404, "figures are not for callers"


async def test_a_gateway_that_is_gone_costs_nobody_a_request(
    database_url: str, cache_url: str, tmp_path: Path
) -> None:
    async with through_nginx(database_url, cache_url, tmp_path) as it, aiohttp.ClientSession() as http:
        it.engine.default = Script(tokens=WORDS)
        await it.gateways[1].stop()
        answers = await asyncio.gather(*(it.stream(http) for _ in range(8)))
        assert {text for text, _ in answers} == {" ".join(WORDS)}
        assert it.served()[0] == 8
