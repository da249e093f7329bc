"""The client of webhooks against real servers: what it sends, what it follows, how long it waits."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from email.utils import format_datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.alerts.webhooks.guard import Guard
from gateway.alerts.webhooks.sender import BODY_BYTES_MAX, Sender, SendFailed
from tests.fakes.clock import ManualClock
from tests.gateway.alerts.tls import self_signed
from tests.gateway.alerts.webhooks.dns import Names, UdpResolver, serve_names
from tests.gateway.alerts.webhooks.receiver import Receiver, serve_receiver
from tests.gateway.alerts.webhooks.receiver import sending as sending_with

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
GUARD = Guard((ip_network("127.0.0.1/32"),))


def sending(**options: Any) -> AbstractAsyncContextManager[Sender]:
    return sending_with(GUARD, ManualClock(NOW), **options)


async def test_what_is_sent_and_what_comes_back() -> None:
    answer = web.Response(status=202, text="ta\x00ken" + "x" * 10_000)
    async with serve_receiver(Receiver([answer])) as receiver, sending() as sender:
        got = await sender.post(receiver.url + "?a=%2F", {"webhook-id": "d1"}, b'{"n":1}')
    [taken] = receiver.taken
    assert (taken.path, taken.body) == ("/hook?a=%2F", b'{"n":1}')
    assert taken.headers["content-type"] == "application/json"
    assert taken.headers["webhook-id"] == "d1"
    assert taken.headers["user-agent"].startswith("Tollway")
    assert (got.status, got.retry_after_s, len(got.text)) == (202, 0.0, 512)
    assert got.text.startswith("ta ken")


async def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    moved = web.Response(status=307, headers={"location": "/elsewhere"})
    async with serve_receiver(Receiver([moved])) as receiver, sending() as sender:
        assert (await sender.post(receiver.url, {}, b"{}")).status == 307
    assert len(receiver.taken) == 1


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("17", 17.0),
        ("", 0.0),
        ("soon", 0.0),
        ("-5", 0.0),
        ("9" * 300, 999_999_999.0),
        (format_datetime(NOW.replace(minute=1), usegmt=True), 60.0),
        (format_datetime(NOW.replace(hour=1), usegmt=True), 0.0),
        ("Mon, 30 Nov 2026 13:00:00 -0000", 0.0),
    ],
)
async def test_how_long_the_receiver_asks_to_wait(value: str, seconds: float) -> None:
    busy = web.Response(status=503, headers={"retry-after": value})
    async with serve_receiver(Receiver([busy])) as receiver, sending() as sender:
        assert (await sender.post(receiver.url, {}, b"{}")).retry_after_s == seconds


class Open(Guard):
    """Takes every address for a public one that is not listed."""

    def may_reach(self, address: str) -> bool:
        return True


async def test_plain_http_is_for_what_is_listed_alone(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    async with (
        serve_receiver() as plain,
        serve_receiver(tls=certificate.server) as secure,
        sending_with(Open(), ManualClock(NOW), tls=certificate.trusting()) as sender,
    ):
        assert (await sender.post(secure.url, {}, b"{}")).status == 200
        with pytest.raises(SendFailed, match="could not be reached"):
            await sender.post(plain.url, {}, b"{}")
    assert plain.taken == []


async def test_no_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve_receiver() as proxy, serve_receiver() as receiver, sending() as sender:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert (await sender.post(receiver.url, {}, b"{}")).status == 200
    assert (len(proxy.taken), len(receiver.taken)) == (0, 1)


async def test_cookies_and_connections_are_not_kept() -> None:
    sweet = web.Response(headers={"set-cookie": "a=b"})
    async with serve_receiver(Receiver([sweet])) as receiver, sending() as sender:
        for _ in range(2):
            await sender.post(receiver.url, {}, b"{}")
    assert [("cookie" in one.headers, one.headers.get("connection")) for one in receiver.taken] == [
        (False, "close")
    ] * 2


async def test_silence_ends_and_a_body_that_never_ends_does_not_matter() -> None:
    silent = Receiver(gate=asyncio.Event())
    async with serve_receiver(silent), sending(timeout_s=0.3) as sender:
        with pytest.raises(SendFailed, match=r"no answer within 0\.3 s"):
            await sender.post(silent.url, {}, b"{}")

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf")
        await reader.read()
        writer.close()

    async with (
        await asyncio.start_server(drip, "127.0.0.1", 0) as server,
        sending(answer_timeout_s=0.5) as sender,
    ):
        port = server.sockets[0].getsockname()[1]
        answer = await sender.post(f"http://127.0.0.1:{port}/", {}, b"")
    assert (answer.status, answer.text) == (200, "half")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "ended before"),
        (b"nonsense\r\n\r\n", "could be read"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 20_000 + b"\r\n\r\n", "could be read"),
    ],
)
async def test_what_is_no_answer(said: bytes, why: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server, sending() as sender:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(SendFailed, match=why):
            await sender.post(f"http://127.0.0.1:{port}/", {}, b"")
        with pytest.raises(SendFailed, match="larger than"):
            await sender.post(f"http://127.0.0.1:{port}/", {}, b"x" * (BODY_BYTES_MAX + 1))


async def test_tls_names_the_host_and_checks_it(tmp_path: Path) -> None:
    """The address was chosen by the resolver, yet the server is asked for by its name, and must prove it."""
    certificate = self_signed(tmp_path, "hooks.test")
    asked: list[str | None] = []
    certificate.server.sni_callback = lambda _socket, name, _context: asked.append(name)
    names = Names({"hooks.test": [["127.0.0.1"]], "other.test": [["127.0.0.1"]]})
    async with (
        serve_names(names) as dns,
        serve_receiver(tls=certificate.server) as receiver,
        sending(resolver=lambda: UdpResolver(dns), tls=certificate.trusting()) as trusting,
        sending(resolver=lambda: UdpResolver(dns), tls=ssl.create_default_context()) as stranger,
    ):
        answer = await trusting.post(f"https://hooks.test:{receiver.port}/x", {}, b"{}")
        with pytest.raises(SendFailed, match=r"TLS: .*other\.test"):
            await trusting.post(f"https://other.test:{receiver.port}/x", {}, b"{}")
        with pytest.raises(SendFailed, match="TLS"):
            await stranger.post(f"https://hooks.test:{receiver.port}/x", {}, b"{}")
    assert answer.status == 200
    assert asked == ["hooks.test", "other.test", "hooks.test"]
    assert receiver.taken[0].headers["host"] == f"hooks.test:{receiver.port}"
    assert len(receiver.taken) == 1
