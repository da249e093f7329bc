"""Two tenants that have one of everything, and everybody who may call for one of them.

Knows how each object is made, not what is asked about it. An object's id is found under the name that the routes give it
in their paths.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import asyncpg

from gateway.alerts.episodes import Episode
from gateway.alerts.repository.episodes import begin, row_of
from gateway.ledger.repository.rollups import fold_usage
from gateway.tenancy.service import SCOPES
from tests.gateway.http.admin.browser import Browser, invited
from tests.gateway.http.admin.people import admin_key, user
from tests.harness import SERVED, Gateway, Tenant

__all__ = ["ALERT", "Caller", "Side", "build", "rows_of"]

ALERT = {
    "currency": "USD",
    "interval": "month",
    "threshold_amount": 5,
    "notification_channel": {"type": "email", "recipients": ["a@example.com"]},
}


@dataclass(frozen=True)
class Caller:
    """`column` of the table of access."""

    column: str
    key: str | None = None
    browser: Browser | None = None

    async def ask(self, gateway: Gateway, method: str, path: str, body: Any) -> tuple[int, str]:
        if self.browser is not None:
            headers = self.browser.headers | {
                "cookie": "; ".join(f"{k}={v}" for k, v in self.browser.cookies.items())
            }
            answer = await gateway.request(method, path, body, headers=headers)
        else:
            answer = await gateway.request(method, path, body, self.key)
        return answer.status, await answer.text()


@dataclass(frozen=True)
class Side:
    tenant: Tenant
    ids: dict[str, str]
    own_model: str
    callers: dict[str, Caller]
    names: list[str] = field(default_factory=list)
    """What nobody else may ever be shown."""

    @property
    def marks(self) -> list[str]:
        return [*(id_ for kind, id_ in self.ids.items() if kind != "pool_id"), *self.names]


async def build(gateway: Gateway, name: str, pool_id: str) -> Side:
    tenant = await gateway.tenant(f"canary {name}")
    project = f"/projects/{tenant.id}"
    own_model = f"model-of-{name}"
    await gateway.route(pool_id, own_model, tenant)
    callers = await _callers(gateway, tenant, name)
    await gateway.refresh()
    ids = {"project_id": tenant.id, "key_id": tenant.key_id, "pool_id": pool_id}
    ids |= await _of_the_project(gateway, project, own_model)
    ids |= await _of_the_organisation(gateway, tenant, name)
    ids |= await _of_the_data_plane(gateway, tenant, callers["key"].key or "", own_model)
    browser = callers["session"].browser
    assert browser is not None
    me = await browser.json("GET", "/me")
    ids |= {"session_id": me["session"]["id"], "user_id": me["user"]["id"]}
    await gateway.refresh()
    names = [f"canary {name}", own_model, tenant.key, *(one.key for one in callers.values() if one.key)]
    return Side(tenant, ids, own_model, callers, names)


async def _callers(gateway: Gateway, tenant: Tenant, name: str) -> dict[str, Caller]:
    """A key with every scope, the keys of the project's owner and member, and its owner at the console."""
    path = f"/projects/{tenant.id}"
    made = await gateway.admin("POST", f"{path}/api_keys", {"name": f"canary {name}", "scopes": [*SCOPES]})
    found = {"key": Caller("api_key", made["value"])}
    for role in ("owner", "member"):
        somebody = await user(gateway, "member", f"canary-{name}-{role}")
        await gateway.admin("POST", f"{path}/users", {"role": role, "user_id": somebody})
        found[role] = Caller(f"project_{role}", await admin_key(gateway, "member", somebody))
    browser = await invited(gateway, "member", f"canary-{name}@example.com", **{tenant.id: "owner"})
    return found | {"session": Caller("project_owner", browser=browser)}


async def _of_the_project(gateway: Gateway, project: str, model: str) -> dict[str, str]:
    account = await gateway.admin("POST", f"{project}/service_accounts", {"name": f"robot {model}"})
    own = {"served_model": model, "requests_per_min": 1000}
    limit = await gateway.admin("POST", f"{project}/limits", own)
    alert = await gateway.admin("POST", f"{project}/spend_alerts", ALERT)
    rates = await gateway.admin("GET", f"{project}/rate_limits")
    return {
        "account_id": account["id"],
        "limit_id": limit["id"],
        "alert_id": alert["id"],
        "rate_limit_id": next(rate["id"] for rate in rates["data"] if rate["model"] == model),
    }


async def _of_the_organisation(gateway: Gateway, tenant: Tenant, name: str) -> dict[str, str]:
    """What the operator made for the tenant."""
    monthly = {"project_id": tenant.id, "period": "monthly", "limit_nanousd": 10**15}
    budget = await gateway.admin("POST", "/budgets", monthly)
    promise = {"sli": "ttft", "threshold_ms": 700, "target": 0.9, "project_id": tenant.id}
    objective = await gateway.admin("POST", "/objectives", promise)
    silence = {"reason": f"canary {name}", "lasts_s": 6000, "project_id": tenant.id}
    silenced = await gateway.admin("POST", "/alert_silences", silence)
    credit = {
        "amount_nanousd": 5,
        "reason": "canary",
        "project_id": tenant.id,
        "idempotency_key": f"c-{name}",
    }
    await gateway.admin("POST", "/credits", credit)
    episode = Episode(
        f"episode_{name}", "slo.burn_rate", f"canary {name}", "page", tenant.id, {}, gateway.app.clock.now()
    )
    async with gateway.app.database.transaction() as connection:
        await begin(connection, [row_of(episode, None)])
    record = f"record_{name}"
    await gateway.sql(
        "INSERT INTO alert_record VALUES ($1, 'budget.exhausted', $2, '{}', now())", record, tenant.id
    )
    return {
        "budget_id": budget["id"],
        "objective_id": objective["id"],
        "silence_id": silenced["id"],
        "episode_id": episode.id,
        "credit_id": f"c-{name}",
        "record_id": record,
    }


async def _of_the_data_plane(gateway: Gateway, tenant: Tenant, key: str, model: str) -> dict[str, str]:
    ask = {"model": SERVED, "messages": [{"role": "user", "content": "one two"}]}
    for asked in (ask, ask | {"model": model, "stream": True}):
        answer = await gateway.request("POST", "/v1/chat/completions", asked, key)
        assert answer.status == 200, await answer.text()
        request_id = answer.headers["x-request-id"]
        await answer.read()
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": ask}
    files = []
    for name in ("read", "left"):
        form = aiohttp.FormData({"purpose": "batch"})
        form.add_field("file", json.dumps(line).encode(), filename=f"canary-{name}.jsonl")
        files.append(await _made(gateway, key, "/v1/files", data=form))
    wanted = {"input_file_id": files[0], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    batch = await _made(gateway, key, "/v1/batches", wanted)
    await _completed(gateway, key, batch)
    hook = {"name": "canary", "url": "https://hooks.example.com/x", "event_types": ["batch.failed"]}
    endpoint = await _made(gateway, key, "/v1/webhook_endpoints", hook)
    await gateway.events()
    async with gateway.app.database.transaction() as connection:
        await fold_usage(connection, 1000)
    return {"request_id": request_id, "files": files[1], "batches": batch, "endpoint_id": endpoint}


async def _completed(gateway: Gateway, key: str, batch: str) -> None:
    async with asyncio.timeout(60):
        while True:
            answer = await gateway.request("GET", f"/v1/batches/{batch}", key=key)
            if (await answer.json())["status"] == "completed":
                return
            await asyncio.sleep(0.02)


async def _made(gateway: Gateway, key: str, path: str, body: Any = None, **options: Any) -> str:
    answer = await gateway.request("POST", path, body, key, **options)
    assert answer.status == 200, await answer.text()
    return str((await answer.json())["id"])


async def rows_of(database_url: str, tenant: Tenant) -> dict[str, list[str]]:
    """Every row of every table that names the tenant, but for when its keys were used last."""
    connection = await asyncpg.connect(database_url)
    try:
        tables = await connection.fetch(
            "SELECT c.table_name FROM information_schema.columns c JOIN information_schema.tables t"
            " USING (table_schema, table_name) WHERE c.column_name = 'tenant_id' AND c.table_schema = 'public'"
            " AND t.table_type = 'BASE TABLE'"
        )
        found = {}
        for [table] in tables:
            rows = await connection.fetch(
                f"SELECT (to_jsonb(t) - 'last_used_at')::text AS row FROM {table} t WHERE tenant_id = $1",
                tenant.id,
            )
            found[table] = sorted(row["row"] for row in rows)
        return found
    finally:
        await connection.close()
