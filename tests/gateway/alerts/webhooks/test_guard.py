"""Which addresses are sent to, and that a name cannot change its mind between the check and the connection."""

from __future__ import annotations

import socket
from ipaddress import ip_network

import pytest
from aiohttp.abc import ResolveResult

from gateway.alerts.webhooks.guard import Guard, Refused, SystemResolver, guarded_socket
from gateway.alerts.webhooks.sender import SendFailed
from gateway.clock import SystemClock
from gateway.upstream.addresses import CheckedResolver
from tests.gateway.alerts.webhooks.dns import Names, UdpResolver, serve_names
from tests.gateway.alerts.webhooks.receiver import sending, serve_receiver

GUARD = Guard()
LISTED = Guard((ip_network("10.1.0.0/16"), ip_network("fd12::/16"), ip_network("127.0.0.1/32")))
FORBIDDEN = (
    *("0.0.0.0", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.8.8.8"),
    *("169.254.169.254", "169.254.0.1", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1"),
    *("192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.7", "203.0.113.9", "224.0.0.1", "240.0.0.1"),
    *("255.255.255.255", "168.63.129.16"),
    *("::", "::1", "::ffff:8.8.8.8", "::ffff:10.0.0.1", "::8.8.8.8", "64:ff9b::808:808", "64:ff9b:1::1"),
    *("fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "100::1", "5f00::1"),
    *("2001::1", "2001:db8::1", "2002:a00:1::", "2002:808:808::", "3fff::1", "2001:20::1"),
)
PUBLIC = (
    "8.8.8.8",
    "1.1.1.1",
    "172.32.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "2a00:1450::1",
    "2001:4860::1",
)


@pytest.mark.parametrize("address", FORBIDDEN)
def test_what_is_not_public_is_refused(address: str) -> None:
    assert not GUARD.may_reach(address)
    assert not GUARD.is_listed(address)


def test_what_is_public_or_listed_is_reached() -> None:
    assert all(GUARD.may_reach(address) for address in PUBLIC)
    assert all(LISTED.may_reach(one) for one in ("10.1.2.3", "fd12::1", "::ffff:10.1.2.3", "8.8.8.8"))
    assert not any(LISTED.may_reach(one) for one in ("10.2.0.1", "fd13::1", "127.0.0.2", "169.254.169.254"))
    assert LISTED.is_listed("10.1.2.3")
    assert not LISTED.is_listed("8.8.8.8"), "public, but plain HTTP is for what is listed"


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/x",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]:8443/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://metadata.google.internal/",
        "http://example.com/hook",
        "ftp://example.com/",
        "https://user:pass@example.com/",
        "https://user@example.com/",
        "https://example.com/#part",
        "https://",
        "no url",
        "https://example.com/" + "x" * 2048,
    ],
)
def test_urls_that_are_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|address|https"):
        GUARD.checked_url(url)


def test_urls_that_are_taken() -> None:
    assert GUARD.checked_url("https://example.com/hook?token=a%2Fb") == "https://example.com/hook?token=a%2Fb"
    assert GUARD.checked_url("https://8.8.8.8:8443/x") == "https://8.8.8.8:8443/x"
    assert LISTED.checked_url("http://10.1.0.9:9093/api/v2/alerts") == "http://10.1.0.9:9093/api/v2/alerts"
    assert LISTED.checked_url("http://alertmanager:9093/"), "judged when it is looked up"
    with pytest.raises(ValueError, match="address"):
        LISTED.checked_url("http://8.8.8.8/")


def checked(guard: Guard, *addresses: str) -> CheckedResolver:
    async def look_up(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=one, port=port, family=family, proto=0, flags=0)
            for one in addresses
        ]

    return CheckedResolver(look_up, lambda address: not guard.may_reach(address))


async def test_one_forbidden_address_among_several_refuses_the_name() -> None:
    assert len(await checked(GUARD, "8.8.8.8", "1.1.1.1").resolve("x")) == 2
    for addresses in (("8.8.8.8", "10.0.0.1"), ("127.0.0.1",), ()):
        with pytest.raises(OSError, match="not connected to"):
            await checked(GUARD, *addresses).resolve("x")


def test_the_socket_asks_once_more() -> None:
    info = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80))
    with pytest.raises(Refused):
        guarded_socket(GUARD.may_reach, info)
    with guarded_socket(LISTED.may_reach, info) as made:
        assert made.getblocking() is False


async def test_the_systems_resolver() -> None:
    resolver = SystemResolver()
    [found] = await resolver.resolve("127.0.0.1", 443)
    assert (found["host"], found["port"]) == ("127.0.0.1", 443)
    [odd] = await resolver.resolve("127.1")
    assert not GUARD.may_reach(odd["host"])
    for name in ("x" * 64 + ".example", "nothing.invalid"):
        with pytest.raises(OSError, match=r".*"):
            await resolver.resolve(name)
    await resolver.close()


async def test_a_name_that_rebinds_is_looked_up_once_for_each_connection_and_judged_each_time() -> None:
    """First it is listed, then it is not: the second message meets the new answer, and nothing is connected to."""
    names = Names({"hooks.test": [["127.0.0.1"], ["127.0.0.2"], ["127.0.0.1", "10.0.0.1"]]})
    refusals = []
    async with (
        serve_names(names) as dns,
        serve_receiver() as receiver,
        sending(LISTED, SystemClock(), resolver=lambda: UdpResolver(dns)) as sender,
    ):
        assert (await sender.post(f"http://hooks.test:{receiver.port}/hook", {}, b"{}")).status == 200
        for name in ("hooks.test", "hooks.test", "nowhere.test"):
            with pytest.raises(SendFailed) as caught:
                await sender.post(f"http://{name}:{receiver.port}/hook", {}, b"{}")
            refusals.append(str(caught.value))
    assert len(receiver.taken) == 1
    assert names.asked.count("hooks.test") == 3
    assert set(refusals) == {"the address could not be reached"}, "no oracle of inner names"


async def test_a_literal_address_passes_no_resolver_and_is_refused_too() -> None:
    async with serve_receiver() as receiver, sending(GUARD, SystemClock()) as sender:
        for host in ("127.0.0.1", "[::ffff:127.0.0.1]", "127.1", "2130706433"):
            for scheme in ("http", "https"):
                with pytest.raises(SendFailed, match="could not be reached"):
                    await sender.post(f"{scheme}://{host}:{receiver.port}/hook", {}, b"{}")
    assert receiver.taken == []
