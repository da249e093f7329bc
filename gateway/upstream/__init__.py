"""Speaking to engines: one HTTP client, and a dialect per kind of engine.

Knows URLs, bytes and timeouts; not tenants, prices or which replica is best.
"""

from gateway.upstream.client import (
    ConnectFailed,
    ConnectionLost,
    StaleConnection,
    UpstreamClient,
    UpstreamError,
    UpstreamReply,
)
from gateway.upstream.deadlines import Deadlines, Timeouts
from gateway.upstream.dialect import Dialect, Order, dialect_of
from gateway.upstream.generic import GenericDialect
from gateway.upstream.native import NativeDialect
from gateway.upstream.status import poll_others, poll_status

__all__ = [
    "ConnectFailed",
    "ConnectionLost",
    "Deadlines",
    "Dialect",
    "GenericDialect",
    "NativeDialect",
    "Order",
    "StaleConnection",
    "Timeouts",
    "UpstreamClient",
    "UpstreamError",
    "UpstreamReply",
    "dialect_of",
    "poll_others",
    "poll_status",
]
