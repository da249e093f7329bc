"""The last line of defence."""

from __future__ import annotations

import json

from tests.fakes.engine import FakeEngine
from tests.gateway.http.answers import BODY, CHAT, refused
from tests.harness import Gateway


async def test_our_own_bug_tells_the_request_id_and_nothing_else(
    gateway: Gateway, engine: FakeEngine
) -> None:
    tenant = await gateway.serve(engine)
    await gateway.sql("ALTER TABLE hold ADD COLUMN surprise int NOT NULL")
    error = await refused(gateway, "POST", CHAT, BODY, key=tenant.key)
    assert error["status"] in (500, 503)
    assert "surprise" not in json.dumps({k: v for k, v in error.items() if k != "headers"})
    assert engine.requests == []
