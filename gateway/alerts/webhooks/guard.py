"""Which addresses may be sent to: public ones, and those that the operator has listed.

A name is judged by what it resolves to, inside the client's resolver and for each connection anew, so that there is no
moment between the check and the use: one forbidden address among several refuses the name, and the socket asks once
more for the address that it connects to. What is refused and what does not exist look the same to whoever named it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult
from pydantic import AnyHttpUrl, TypeAdapter, ValidationError

from gateway.tenancy.addresses import Network, parse_networks
from gateway.upstream.addresses import is_unsafe

__all__ = ["Allows", "Guard", "Refused", "SystemResolver", "guarded_socket"]

URL_CHARS_MAX = 2048
DNS_THREADS = 32

Allows = Callable[[str], bool]
"""Whether an address, as text, may be connected to."""

_NOT_PUBLIC: Final = parse_networks(
    (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        # In what is global of IPv6: special purposes with Teredo, documentation, 6to4.
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
)
_GLOBAL: Final = IPv6Network("2000::/3")
"""Everything else of IPv6 is local, mapped, translated (NAT64), multicast or nobody's."""


class Refused(OSError):
    """No address that may be connected to."""


class Guard:
    """`allowed`: networks that are reached although they are not public, and over plain HTTP too."""

    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        self._allowed = allowed

    def may_reach(self, address: str) -> bool:
        return self.is_listed(address) or _is_public(address)

    def is_listed(self, address: str) -> bool:
        found = _parsed(address)
        mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
        return any(one in network for network in self._allowed for one in (found, mapped) if one is not None)

    def checked_url(self, text: str) -> str:
        """As it is sent to. Raises ValueError with a sentence for its owner."""
        if len(text) > URL_CHARS_MAX:
            raise ValueError(f"The URL is longer than {URL_CHARS_MAX} characters.")
        try:
            url = TypeAdapter(AnyHttpUrl).validate_python(text)
        except ValidationError as error:
            raise ValueError("This is no URL of a receiver.") from error
        host = (url.host or "").strip("[]").rstrip(".").lower()
        if url.username is not None or url.password is not None or url.fragment is not None:
            raise ValueError("A receiver's URL has no user, password or fragment.")
        if url.scheme != "https" and not self._allowed:
            raise ValueError("Only https URLs are sent to.")
        literal = _parsed(host)
        allows = self.may_reach if url.scheme == "https" else self.is_listed
        if not allows(host) if literal is not None else is_unsafe(host):
            raise ValueError("Events are not sent to this address.")
        return str(url)


class SystemResolver(AbstractResolver):
    """The system's own, in threads of its own: names that take long must not fill everybody's."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(DNS_THREADS, thread_name_prefix="webhook-dns")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        look_up = partial(
            socket.getaddrinfo, host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        except UnicodeError as error:  # a label that is empty or too long
            raise Refused(f"{host} is no name") from error
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(
                hostname=host, host=str(address[0]), port=port, family=kind, proto=protocol, flags=flags
            )
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def guarded_socket(allows: Allows, info: Any) -> socket.socket:
    """For one address that is about to be connected to, however the client came by it (`getaddrinfo`'s tuple)."""
    family, kind, protocol, _, address = info
    if not allows(str(address[0])):
        raise Refused("this address is not sent to")
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    return made


def _is_public(address: str) -> bool:
    found = _parsed(address)
    if found is None or is_unsafe(str(found)):
        return False
    if isinstance(found, IPv6Address) and found not in _GLOBAL:
        return False
    return not any(found in network for network in _NOT_PUBLIC)


def _parsed(text: str) -> Any:
    """None if it is a name. A zone (`fe80::1%eth0`) is part of no address of ours."""
    try:
        return ip_address(text.split("%")[0])
    except ValueError:
        return None
