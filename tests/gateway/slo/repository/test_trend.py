"""The last hour of the board's lines, through the admin API."""

from __future__ import annotations

import pytest

from tests.gateway.http.admin.test_slo import fill
from tests.harness import Gateway


async def test_each_line_shows_its_last_hour(gateway: Gateway) -> None:
    """In steps of five minutes: what happened a minute ago is in the last of them, and gaps stay gaps."""
    tenants = [await gateway.tenant(name) for name in ("good", "bad")]
    await fill(gateway, tenants)
    before = gateway.app.clock.now().timestamp()
    worst, together, good = (await gateway.admin("GET", "/slo/board"))["data"]
    after = gateway.app.clock.now().timestamp()
    for line in (worst, together, good):
        trend = line["trend"]
        assert trend["step_s"] == 300
        assert before - 60 < trend["start_time"] + 12 * 300 <= after
        for name in ("ttft_p95_ms", "tpot_p95_ms", "burn"):
            assert len(trend[name]) == 12
            assert len([value for value in trend[name] if value is not None]) == 1, name
        assert len([value for value in trend["tokens_per_s"] if value]) == 1
    assert max(filter(None, good["trend"]["ttft_p95_ms"])) == good["ttft_p95_ms"]
    assert max(filter(None, worst["trend"]["burn"])) == pytest.approx(500), "of its fastest promise"
    assert max(filter(None, good["trend"]["burn"])) == pytest.approx(0.2 / 0.05)
    assert sum(together["trend"]["tokens_per_s"]) == pytest.approx(20 * 5 / 300)
