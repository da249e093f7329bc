"""The routes of objectives, their board, episodes, silences and samples, each called once with something in it."""

from __future__ import annotations

from datetime import timedelta

from gateway.alerts.episodes import Episode
from gateway.alerts.repository.episodes import begin, row_of
from gateway.pool.samples import SampleRow, write_samples
from gateway.slo.burn import WINDOWS_S, state_of
from gateway.slo.repository.states import write_states
from gateway.slo.types import Objective, Series, Sums
from tests.harness import Gateway, Tenant

__all__ = ["the_promises"]


async def the_promises(gateway: Gateway, tenant: Tenant) -> None:
    body = {"sli": "ttft", "threshold_ms": 700, "target": 0.9, "project_id": tenant.id}
    one = f"/objectives/{(await gateway.admin('POST', '/objectives', body))['id']}"
    await gateway.admin("GET", "/objectives")
    await gateway.admin("GET", one)
    await gateway.admin("POST", one, {"target": 0.8, "threshold_ms": 700})
    await gateway.admin("DELETE", one)
    silence = await gateway.admin("POST", "/alert_silences", {"reason": "r", "lasts_s": 60})
    await gateway.admin("GET", "/alert_silences")
    await gateway.admin("GET", f"/alert_silences/{silence['id']}")
    await gateway.admin("DELETE", f"/alert_silences/{silence['id']}")
    pool_id = await fill(gateway, tenant)
    await gateway.admin("GET", "/alert_episodes")
    await gateway.admin("GET", "/alert_episodes/episode_1")
    assert (await gateway.admin("GET", "/slo/board"))["data"]
    await gateway.admin("GET", f"/slo/series?start_time={int(gateway.app.clock.now().timestamp())}")
    assert (await gateway.admin("GET", f"/pools/{pool_id}/samples"))["data"]


async def fill(gateway: Gateway, tenant: Tenant) -> str:
    """Something to show of each; the id of a pool with samples."""
    now, series = gateway.app.clock.now(), Series(tenant.id, "m", "interactive", "ttft")
    promise = Objective("objective_a", None, None, "interactive", "ttft", 800_000, 950_000, now)
    episode = Episode("episode_1", "ledger.drift", "rollups", "page", None, {"difference": 1}, now)
    pool_id = (await gateway.admin("GET", "/pools"))["data"][0]["id"]
    sample = SampleRow(now - timedelta(minutes=1), "replica_a", pool_id, 1, 2, 0.5, None, None)
    async with gateway.app.database.transaction() as connection:
        await write_states(
            connection, [state_of(series, promise, dict.fromkeys(WINDOWS_S, Sums(9, 10)))], now
        )
        await begin(connection, [row_of(episode, None)])
        await write_samples(connection, [sample])
    return str(pool_id)
