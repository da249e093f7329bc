"""Asking a replica how it is."""

from __future__ import annotations

from gateway.upstream.client import UpstreamClient
from gateway.upstream.status import poll_status
from tests.fakes.engine import FakeEngine


async def test_status(engine: FakeEngine, client: UpstreamClient) -> None:
    engine.reported_waiting = 4
    status = await poll_status(client, engine.url, engine.api_key, 1.0)
    assert status is not None
    assert (status.state, status.load.waiting, status.load.epoch) == ("ready", 4, engine.epoch)
    assert await poll_status(client, engine.url, "wrong", 1.0) is None
    await engine.stop()
    assert await poll_status(client, engine.url, engine.api_key, 1.0) is None
