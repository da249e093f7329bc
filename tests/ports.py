"""Ports that a test names before anybody listens on them."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["keep_port", "kept_port"]


def keep_port(port: int = 0) -> socket.socket:
    """Bound and not listening: while it is open nobody else is given its port, connections to it are refused, and a
    server that sets SO_REUSEADDR, as all of ours do, may come, go and come again."""
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.bind(("127.0.0.1", port))
    return keeper


@contextmanager
def kept_port() -> Iterator[int]:
    with keep_port() as keeper:
        port: int = keeper.getsockname()[1]
        yield port
