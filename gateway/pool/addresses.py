"""Which addresses may be written down for an external engine. Pure: a name is judged as it is written.

What it resolves to is judged when the gateway connects (upstream/addresses.py).
"""

from collections.abc import Iterable

from pydantic import AnyHttpUrl

from gateway.upstream.addresses import is_unsafe

__all__ = ["unsafe_url"]


def unsafe_url(urls: Iterable[AnyHttpUrl]) -> str | None:
    """What is wrong with the first that must not be asked."""
    for url in urls:
        if url.username is not None or url.password is not None:
            return "urls: a user or a password in an address would be shown to whoever reads the pool"
        if url.query is not None or url.fragment is not None:
            return "urls: an engine's address has no query and no fragment"
        if is_unsafe(url.host or ""):
            return (
                f"urls: {url.host} is no address of an engine (link-local, multicast, or a cloud's metadata)"
            )
    return None
