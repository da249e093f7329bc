"""A provider's answers: only from where nobody else can speak for it, and no larger than they have to be."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.sessions.oidc.provider import BYTES_MAX, Provider, is_safe_url
from gateway.sessions.oidc.types import ProviderConfig, ProviderFailed
from tests.fakes.clock import ManualClock


@pytest.mark.parametrize(
    ("url", "is_safe"),
    [
        ("https://provider.example/x", True),
        ("http://127.0.0.1:8080", True),
        ("http://[::1]:8080", True),
        ("http://provider.example", False),
        ("http://127.0.0.1.evil.example", False),
        ("file:///etc/passwd", False),
        ("https", False),
        ("http://[", False),
    ],
)
def test_only_https_or_this_machine(url: str, is_safe: bool) -> None:
    assert is_safe_url(url) is is_safe


@pytest.mark.parametrize("kind", ["large", "redirect", "no json", "list", "not found"])
async def test_other_answers_are_refused(kind: str) -> None:
    async def answer(request: web.Request) -> web.Response:
        if kind == "redirect":
            return web.Response(status=302, headers={"location": "/.well-known/openid-configuration?x"})
        bodies = {"large": b'{"a":"' + b"x" * BYTES_MAX + b'"}', "no json": b"<html>", "list": b"[]"}
        return web.Response(status=404 if kind == "not found" else 200, body=bodies.get(kind, b"{}"))

    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", answer)
    async with TestServer(app) as server:
        config = ProviderConfig(str(server.make_url("")).rstrip("/"), "c", "n", "https://c.example")
        with pytest.raises(ProviderFailed) as failed:
            await Provider(ManualClock()).description(config)
    assert failed.value.code in ("provider_refused", "provider_unavailable")
