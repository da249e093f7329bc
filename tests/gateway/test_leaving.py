"""Callers that leave the gateway, in every phase of their request to a real engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.exchange import closer
from tests.engine.leaving import FLAGS, PHASES, Door, leave, write_model
from tests.engine.test_core_process import serving
from tests.engine.test_leaving import check
from tests.gateway.test_isolation import Served
from tests.harness import SERVED, Gateway


@pytest.fixture
def gateway_changes() -> dict[str, Any]:
    return {
        "upstream": {"internal_key": "internal", "first_token_timeout_s": 120.0, "connect_timeout_s": 30.0}
    }


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    flags = ("--journal-dir", str(tmp_path / "journal"), *FLAGS)
    async with serving(write_model(tmp_path / "model"), *flags) as engine:
        yield Served(engine, (await engine.status())["epoch"], tmp_path / "engine.log")


async def test_who_leaves_the_gateway_leaves_the_engine(
    gateway: Gateway, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Duty engine-2: through the gateway too: queued, in prefill, in decode, streaming or not; billed as journalled."""
    monkeypatch.setattr(closer, "FINAL_FIGURE_S", 60.0)  # else it may guess on a busy machine
    tenant = await gateway.serve(served)  # type: ignore[arg-type]  # has what a pool needs
    door = Door(gateway.url, {"authorization": f"Bearer {tenant.key}"}, SERVED)
    ends = []
    for phase, stream in [(p, s) for p in PHASES for s in (True, False)]:
        end = await leave(served.engine, door, phase, stream=stream)
        check(end, phase)
        ends.append((end["request_id"], end["completion_tokens"]))
    events = await gateway.events(len(ends), within_s=60)
    assert {event["status"] for event in events} == {"cancelled"}
    billed = {event["request_id"]: event["completion_tokens"] for event in events}
    assert billed == dict(ends)
