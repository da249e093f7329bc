"""Asking a replica how it is: state, load, requests in flight of our own, the load of others. Never generates a token."""

from __future__ import annotations

import ssl

from gateway.upstream.client import UpstreamClient, UpstreamError
from gateway.upstream.native import authorization
from gateway.wire.load import EngineStatus, read_exposition, read_status

__all__ = ["poll_others", "poll_status"]


async def poll_status(
    client: UpstreamClient, base_url: str, key: str | None, timeout_s: float
) -> EngineStatus | None:
    """None when the replica did not answer, or answered something else."""
    try:
        status, raw = await client.fetch(
            "GET", f"{base_url}/internal/status", authorization(key), None, timeout_s
        )
    except UpstreamError:
        return None
    return read_status(raw) if status == 200 else None


async def poll_others(
    client: UpstreamClient,
    base_url: str,
    key: str | None,
    timeout_s: float,
    tls: ssl.SSLContext | None = None,
) -> EngineStatus | None:
    """Of a third party's engine, from its metrics: nothing but load. None when it shows none."""
    try:
        status, raw = await client.fetch(
            "GET", f"{base_url}/metrics", authorization(key), None, timeout_s, tls
        )
    except UpstreamError:
        return None
    load = read_exposition(raw.decode(errors="replace")) if status == 200 else None
    return EngineStatus(load, "ready", "", None, frozenset()) if load is not None else None
