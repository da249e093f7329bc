"""A whole gateway for tests: real uvicorn, real Postgres and Valkey, engines faked on the far side of HTTP.

Everything is configured through the admin API, except the replica rows, which are the supervisor's to write.
`audit()` checks what must hold after any test: every admitted request has exactly one usage event, nothing is
held any more, and each event is the sum of what its attempts billed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp
import asyncpg
import openai
import uvicorn

from gateway.app import GatewayApp, create_app
from gateway.clock import Clock
from gateway.http.protocol import BoundedProtocol
from gateway.ids import TenantId, new_id
from gateway.obs.logging import configure_logging
from gateway.routing import Target
from gateway.settings import (
    DatabaseSettings,
    ExportSettings,
    LedgerSettings,
    LimitSettings,
    MailSettings,
    SecuritySettings,
    ServerSettings,
    Settings,
    UpstreamSettings,
)
from gateway.tenancy.bootstrap import bootstrap
from tests.fakes.engine import FakeEngine
from tests.openapi import Description
from tests.patience import LONG_S, patient_cache

SERVED = "served-model"
SKU = "sku-1"
PRICES = {
    "input_nanousd_per_token": "100",
    "cached_input_nanousd_per_token": "10",
    "output_nanousd_per_token": "1000",
}
NO_LIMITS = LimitSettings(requests_per_minute=0, tokens_per_minute=0, concurrent_requests=0)


@dataclass(frozen=True)
class Tenant:
    id: str
    key: str
    key_id: str


class Gateway:
    def __init__(
        self,
        database_url: str,
        cache_url: str,
        directory: Path,
        gateway_id: str = "gw-1",
        clock: Clock | None = None,
        **changes: Any,
    ) -> None:
        """`changes` replace fields of the upstream, limits, server and ledger groups: `upstream={...}`."""
        self.database_url = database_url
        self.clock = clock
        # What a busy machine delays is no fault: a test that means a time limit sets it.
        upstream = {"internal_key": "engine-key", "connect_timeout_s": LONG_S, **changes.get("upstream", {})}
        ledger = {"reserve_timeout_s": LONG_S, **changes.get("ledger", {})}
        self.settings = Settings(
            database=DatabaseSettings(url=database_url, connect_timeout_s=LONG_S, statement_timeout_s=LONG_S),
            cache=patient_cache(cache_url),
            server=ServerSettings(
                gateway_id=gateway_id, **{"files": str(directory / "files"), **changes.get("server", {})}
            ),
            security=SecuritySettings(
                **changes.get("security", {"key_pepper": "pepper-of-the-tests-0123456789"})
            ),
            upstream=UpstreamSettings(**upstream),
            limits=changes.get("limits", NO_LIMITS),
            ledger=LedgerSettings(spool_dir=directory / gateway_id, **ledger),
            exports=ExportSettings(**changes.get("exports", {})),
            mail=MailSettings(**changes.get("mail", {})),
        )
        self.app: GatewayApp
        self.url = ""
        self.admin_key = ""
        self.description = Description()
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._http: aiohttp.ClientSession | None = None
        self._clients: list[openai.AsyncOpenAI] = []

    # -- life ---------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Gateway:
        await self._start()
        async with asyncio.timeout(3 * LONG_S):
            while not self.app.feed.fresh or self.app.why_not_ready() is not None:
                await self.app.feed.poll()
        if not self.admin_key:
            app = self.app
            key = await bootstrap(app.database, app.peppers, app.clock, app.ids, os.urandom)
            assert key.value is not None
            self.admin_key = key.value
        return self

    @asynccontextmanager
    async def without_database(self) -> AsyncIterator[Gateway]:
        """Started while nothing can be ready."""
        await self._start()
        try:
            yield self
        finally:
            await self.__aexit__(None, None, None)

    async def _start(self) -> None:
        configure_logging("warning")
        self.app = create_app(self.settings, self.clock)
        self.app.feed._timeout_s = LONG_S
        config = uvicorn.Config(
            self.app,
            host="127.0.0.1",
            port=0,
            lifespan="on",
            http=BoundedProtocol,
            log_config=None,
            loop="none",
            ws="none",
            timeout_keep_alive=600,  # a client's idle connection must not be closed under its next request
            proxy_headers=False,  # the address comes from the peer and trusted_proxy_cidrs alone
        )
        self._server = uvicorn.Server(config)
        self._serving = asyncio.create_task(self._server.serve())
        async with asyncio.timeout(3 * LONG_S):
            while not self._server.started and not self._serving.done():  # noqa: ASYNC110  # uvicorn has no event
                await asyncio.sleep(0.005)
        assert self._server.started, "the gateway did not start"
        self.url = f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"
        self._http = aiohttp.ClientSession(self.url)

    async def __aexit__(self, kind: type | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        for client in self._clients:
            await client.close()
        assert self._http is not None
        await self._http.close()
        await self.stop()

    async def stop(self) -> None:
        """As SIGTERM does."""
        assert self._server is not None
        assert self._serving is not None
        self._server.should_exit = True
        await self._serving

    # -- configuration ------------------------------------------------------------------------------------

    async def admin(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        answer = await self.request(method, f"/v1/organization{path}", body, self.admin_key)
        assert answer.status == status, (answer.status, await answer.text())
        self.description.check(
            method, answer.url.path, status, answer.headers["content-type"], await answer.read()
        )
        return await answer.json()

    async def request(
        self, method: str, path: str, body: Any = None, key: str | None = None, **options: Any
    ) -> aiohttp.ClientResponse:
        assert self._http is not None
        headers = {"authorization": f"Bearer {key}"} if key is not None else {}
        headers |= options.pop("headers", {})
        if body is not None:
            options["json"] = body
        return await self._http.request(method, path, headers=headers, **options)

    async def tenant(self, name: str = "tenant") -> Tenant:
        project = await self.admin("POST", "/projects", {"name": name})
        key = await self.admin("POST", f"/projects/{project['id']}/api_keys", {"name": "key"})
        return Tenant(project["id"], key["value"], key["id"])

    async def pool(self, *engines: FakeEngine, kind: str = "tollway", name: str = "pool") -> str:
        spec: dict[str, Any] = {"model": "model", "served_names": [engines[0].model], "kind": kind}
        if kind == "external":
            spec["urls"] = [engine.url for engine in engines]
        pool = await self.admin("POST", "/pools", {"name": name, "spec": spec})
        for engine in engines:
            await self.replica(pool["id"], engine)
        return str(pool["id"])

    async def replica(self, pool_id: str, engine: FakeEngine) -> str:
        replica_id = new_id("replica")
        await self.sql(
            "INSERT INTO replica (id, pool_id, node, state, url, epoch, ready_at)"
            " VALUES ($1, $2, 'node', 'ready', $3, $4, now())",
            replica_id,
            pool_id,
            engine.url,
            engine.epoch,
        )
        return replica_id

    async def route(
        self, pool_id: str, served: str = SERVED, tenant: Tenant | None = None, **fields: Any
    ) -> None:
        known = await self.admin("GET", f"/prices?sku={SKU}")
        if not known["data"]:
            await self.admin("POST", "/prices", {"sku": SKU, **PRICES})
        body = {"served_model": served, "pool_id": pool_id, "sku": SKU, **fields}
        await self.admin("POST", "/routes", body | ({"project_id": tenant.id} if tenant else {}))

    async def serve(self, *engines: FakeEngine, kind: str = "tollway") -> Tenant:
        """The ordinary set-up: one pool, one route for everybody, one tenant."""
        pool_id = await self.pool(*engines, kind=kind)
        await self.route(pool_id)
        tenant = await self.tenant()
        await self.refresh()
        return tenant

    async def refresh(self) -> None:
        """What a second of waiting for the revision feed would do."""
        async with asyncio.timeout(3 * LONG_S):
            while not await self.app.feed.poll():
                pass

    async def poll(self) -> None:
        """What a second of waiting for the replicas' own reports would do."""
        await self.app.replicas.poll(self.app.ask_status)

    def retries_taken(self, tenant: Tenant) -> int:
        return self.app.replicas.budget(self.target(tenant).pool_id).taken

    def target(self, tenant: Tenant, served: str = SERVED) -> Target:
        found = self.app.catalogue.resolve(TenantId(tenant.id), served)
        assert found is not None
        return found

    # -- clients ------------------------------------------------------------------------------------------

    def client(self, tenant: Tenant | str, **options: Any) -> openai.AsyncOpenAI:
        key = tenant if isinstance(tenant, str) else tenant.key
        options = {"max_retries": 0, "timeout": 200.0, **options}
        client = openai.AsyncOpenAI(api_key=key, base_url=f"{self.url}/v1", **options)
        self.adopt(client)
        return client

    def adopt(self, client: openai.AsyncOpenAI) -> None:
        """Closes the client with the gateway."""
        self._clients.append(client)

    # -- the ledger ---------------------------------------------------------------------------------------

    async def sql(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        connection = await asyncpg.connect(self.database_url)
        try:
            return [dict(row) for row in await connection.fetch(statement, *values)]
        finally:
            await connection.close()

    async def events(self, count: int | None = None, within_s: float = 60) -> list[dict[str, Any]]:
        """The usage events, oldest first, once there are `count` of them and nothing is open."""
        async with asyncio.timeout(within_s):
            while True:
                # Holds first: what was settled between the two questions has its event by then.
                holds = await self.sql("SELECT request_id FROM hold")
                rows = await self.sql("SELECT * FROM usage_event ORDER BY occurred_at, event_id")
                if not holds and (count is None or len(rows) >= count):
                    assert count is None or len(rows) == count, rows
                    return rows
                await asyncio.sleep(0.02)

    async def attempts(self) -> list[dict[str, Any]]:
        return await self.sql("SELECT * FROM attempt ORDER BY request_id, attempt")

    async def audit(self) -> None:
        """Call after `stop()`, which settles everything."""
        admitted = self._reserved()
        events = await self.sql("SELECT * FROM usage_event WHERE corrects IS NULL AND kind = 'request'")
        assert len(events) == admitted, f"{admitted} requests were admitted, {len(events)} have an event"
        assert len({event["request_id"] for event in events}) == len(events)
        assert await self.sql("SELECT * FROM hold") == []
        assert await self.sql("SELECT * FROM budget_period WHERE held_nanousd <> 0") == []
        await self._audit_sums()
        replicas = self.app.replicas.in_flight()
        assert replicas == 0, f"{replicas} attempts still count as in flight"

    async def _audit_sums(self) -> None:
        differing = await self.sql(
            """
            SELECT e.request_id, e.status, e.completion_tokens, a.completion FROM usage_event e
            JOIN settled_request s ON s.request_id = e.request_id AND NOT s.is_provisional AND e.kind = 'request'
            LEFT JOIN (
                SELECT request_id, sum(billed_prompt_tokens) AS prompt, sum(billed_completion_tokens) AS completion
                FROM attempt GROUP BY request_id
            ) a ON a.request_id = e.request_id
            WHERE e.prompt_uncached_tokens + e.prompt_cached_tokens <> coalesce(a.prompt, 0)
                OR e.completion_tokens <> coalesce(a.completion, 0)
            """
        )
        assert differing == []

    def _reserved(self) -> int:
        counter = self.app.metrics.ledger_operations
        return int(counter.labels("reserve", "ok")._value.get())
