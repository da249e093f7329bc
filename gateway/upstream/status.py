"""Asking a replica of our own how it is: state, load, requests in flight. Never generates a token."""

from __future__ import annotations

from gateway.upstream.client import UpstreamClient, UpstreamError
from gateway.upstream.native import authorization
from gateway.wire.load import EngineStatus, read_status

__all__ = ["poll_status"]


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
