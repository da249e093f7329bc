"""Which addresses the gateway connects to for an engine: judged as they are written, and again as a name resolves.

Private addresses are where engines mostly are. But nothing that serves a model is link-local: there clouds answer
with the machine's own credentials, to whoever can make it ask. A name is looked up again and again and may lead
elsewhere later, so the resolver of the client refuses too; the certificate is still verified for the name.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv6Address, ip_address

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

__all__ = ["CheckedResolver", "Lookup", "is_unsafe"]

METADATA_HOSTS = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})
METADATA_ADDRESSES = frozenset({"fd00:ec2::254", "100.100.100.200", "192.0.0.192", "168.63.129.16"})
"""Of clouds that answer at an address that is not link-local."""

Lookup = Callable[[str, int, socket.AddressFamily], Awaitable[list[ResolveResult]]]


def is_unsafe(host: str) -> bool:
    """A name is judged by its letters alone."""
    host = host.strip("[]").rstrip(".").lower()
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host in METADATA_HOSTS or host.endswith(".metadata.google.internal")
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address.sixtofour or address
    return (
        address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or str(address) in METADATA_ADDRESSES
    )


class CheckedResolver(AbstractResolver):
    """Refuses a name when any of its addresses is one that is not to be connected to."""

    def __init__(self, lookup: Lookup | None = None, refuses: Callable[[str], bool] = is_unsafe) -> None:
        """`lookup` in place of the system's; made inside the running loop. `refuses` judges one address."""
        self._system = ThreadedResolver()
        self._lookup = lookup or self._system.resolve
        self._refuses = refuses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._lookup(host, port, family)
        if not found or is_unsafe(host) or any(self._refuses(one["host"]) for one in found):
            # The address is not named: whoever chose the name learns nothing of this network by it.
            raise OSError(None, f"{host} resolves to an address that is not connected to")
        return found

    async def close(self) -> None:
        await self._system.close()
