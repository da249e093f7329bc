"""Where a caller is: the address that IP rules look at. Pure.

A proxy appends the address it saw to X-Forwarded-For, so only what trusted proxies appended can be believed:
the caller is the rightmost address that is not itself a trusted proxy. Without trusted proxies the header is
ignored. This module does not know the rules' owners.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

__all__ = ["Address", "Network", "client_address", "is_allowed", "parse_networks"]

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def client_address(peer: str | None, forwarded_for: str | None, trusted: Sequence[Network]) -> str | None:
    """None when the peer is unknown (a unix socket) and nothing trustworthy says more."""
    address = _parse(peer)
    if not trusted or address is None:
        return None if address is None else str(address)
    for hop in reversed((forwarded_for or "").split(",")):
        if not _within(address, trusted):
            break
        nearer = _parse(hop.strip())
        if nearer is None:
            break
        address = nearer
    return str(address)


def is_allowed(client_ip: str | None, allow_list: Sequence[Network]) -> bool:
    """An empty list allows everybody; an unknown address is on no list."""
    if not allow_list:
        return True
    address = _parse(client_ip)
    return address is not None and _within(address, allow_list)


def parse_networks(values: Sequence[str]) -> tuple[Network, ...]:
    """Addresses and CIDR blocks; raises ValueError for anything else."""
    return tuple(ip_network(value, strict=False) for value in values)


def _within(address: Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)


def _parse(text: str | None) -> Address | None:
    """IPv4 addresses that a dual-stack socket shows as IPv6 count as the IPv4 addresses that they are."""
    try:
        address = ip_address((text or "").split("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
