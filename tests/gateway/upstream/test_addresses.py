"""The client's resolver: a name that leads elsewhere later meets the rules when it is connected to."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp.abc import ResolveResult

from gateway.pool.access import trusting
from gateway.settings import UpstreamSettings
from gateway.upstream.addresses import is_unsafe
from gateway.upstream.client import ConnectFailed, ConnectionLost, UpstreamClient
from tests.certificates import Authority
from tests.fakes.stranger import Stranger
from tests.patience import LONG_S

HOST = "engine.example"
BAD = ("169.254.169.254", "fe80::1%eth0", "::ffff:169.254.169.254", "fd00:ec2::254", "0.0.0.0", "224.0.0.1")


def client_of(addresses: Callable[[], list[str]]) -> UpstreamClient:
    async def lookup(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=0,
            )
            for address in addresses()
        ]

    return UpstreamClient(UpstreamSettings(connect_timeout_s=LONG_S), lookup)


@pytest.mark.parametrize("address", BAD)
async def test_a_name_that_leads_elsewhere_later_is_not_followed(address: str) -> None:
    """Good when the pool was made; then one of its addresses is a forbidden one, and nothing is sent anywhere."""
    addresses = ["127.0.0.1"]
    client = client_of(lambda: addresses)
    await client.start()
    async with Stranger() as there:
        url = there.url(HOST)
        reply = await client.post(f"{url}/v1/chat/completions", {}, b"{}", fresh=True)
        assert reply.status == 200
        await reply.read_whole()
        addresses.append(address)
        there.asked.clear()
        fresh = client_of(lambda: addresses)  # whose names are not known from before
        await fresh.start()
        for one in (True, False):
            with pytest.raises(ConnectFailed) as refused:
                await fresh.post(f"{url}/v1/chat/completions", {}, b"{}", fresh=one)
            assert address not in str(refused.value)
        with pytest.raises(ConnectionLost):
            await fresh.fetch("GET", f"{url}/metrics", {}, None, 5)
        assert there.asked == []
        await fresh.close()
    await client.close()


async def test_the_certificate_is_the_names_not_the_addresss(tmp_path: Path) -> None:
    """Checked addresses are connected to by the name: SNI, Host and verification keep it."""
    authority = Authority.made()
    client = client_of(lambda: ["127.0.0.1"])
    await client.start()
    async with Stranger(tls=authority.server(tmp_path, HOST)) as there:
        tls = trusting(authority.pem)
        status, _ = await client.fetch("GET", f"{there.url(HOST)}/metrics", {}, None, 10, tls)
        assert status == 200
        assert there.names == [HOST]
        assert there.asked[0].host == f"{HOST}:{there.port}"
        for url, trusted in (
            (there.url("other.example"), tls),
            (there.url(HOST), trusting(Authority.made().pem)),
        ):
            with pytest.raises(ConnectFailed):
                await client.post(f"{url}/v1/chat/completions", {}, b"{}", tls=trusted)
        with pytest.raises(ConnectFailed):  # nor by the system's authorities
            await client.post(f"{there.url(HOST)}/v1/chat/completions", {}, b"{}")
        assert len(there.asked) == 1
    await client.close()


def test_private_addresses_are_where_engines_are() -> None:
    for address in ("10.0.0.1", "192.168.1.1", "127.0.0.1", "::1", "fd12:3456::1", "engine.internal"):
        assert not is_unsafe(address)
