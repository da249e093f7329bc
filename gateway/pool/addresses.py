"""Which addresses an external engine may have. Pure: a name is judged as it is written, not by what it resolves to.

An operator names the engines, and private addresses are where they mostly are. But nothing that serves a model is
link-local: there clouds answer with the machine's own credentials, to whoever can make it ask.
"""

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address

from pydantic import AnyHttpUrl

__all__ = ["unsafe_url"]

METADATA_HOSTS = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})
METADATA_ADDRESSES = frozenset({"fd00:ec2::254", "100.100.100.200", "192.0.0.192"})
"""Of clouds that answer at an address that is not link-local."""


def unsafe_url(urls: Iterable[AnyHttpUrl]) -> str | None:
    """What is wrong with the first that must not be asked."""
    for url in urls:
        if url.username is not None or url.password is not None:
            return "urls: a user or a password in an address would be shown to whoever reads the pool"
        if url.query is not None or url.fragment is not None:
            return "urls: an engine's address has no query and no fragment"
        if _is_unsafe((url.host or "").strip("[]").rstrip(".").lower()):
            return (
                f"urls: {url.host} is no address of an engine (link-local, multicast, or a cloud's metadata)"
            )
    return None


def _is_unsafe(host: str) -> bool:
    try:
        address = ip_address(host)
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
