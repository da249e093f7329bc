"""Asks the parts of an installation how they are, once: the gateway's admin API, each engine, the database.

Place: the command → here → the checks. A part that does not answer is a fact too, not the end; only without the admin
API there is no installation to speak of.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from gateway.admin_client import AdminCallFailed, AdminClient
from gateway.checks.repository import read_facts
from gateway.checks.types import DatabaseFacts, EngineFacts, Facts
from gateway.db import DATABASE_ERRORS, Database, reason
from gateway.migrate import SchemaMismatch, check_schema
from gateway.pool.spec import EngineSpec
from gateway.settings import Settings
from gateway.wire.load import read_exposition

__all__ = ["Places", "gather", "read_workloads"]

_TIMEOUT_S = 20.0
_CACHE_INFO = "vllm:cache_config_info"


class Places:
    """Where the installation is."""

    def __init__(
        self, url: str, admin_key: str, prometheus: str | None = None, workloads: Path | None = None
    ) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self.admin_key = admin_key
        self.prometheus = prometheus
        self.workloads = workloads


async def gather(settings: Settings, places: Places) -> Facts:
    """Raises `AdminCallFailed` where the admin API cannot be asked."""
    async with (
        AdminClient(places.url, places.admin_key) as admin,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S)) as http,
    ):
        lists = ("/pools", "/routes", "/prices", "/objectives", "/webhook_endpoints", "/replicas")
        pools, routes, prices, objectives, endpoints, replicas = [await admin.all(path) for path in lists]
        pools = [_whole(pool) for pool in pools]
        groups = None if places.prometheus is None else await _rule_groups(http, places.prometheus)
        workloads = None if places.workloads is None else read_workloads(places.workloads)
        asked = (_engine(http, settings, replica, pools) for replica in replicas if replica["url"])
        engines = await asyncio.gather(*asked)
        return Facts(
            settings=settings,
            database=await _database(settings),
            not_ready=await _not_ready(http, places.url),
            are_metrics_open=await _status(http, f"{places.url}/metrics") == 200,
            pools=pools,
            routes=routes,
            prices=prices,
            objectives=objectives,
            endpoints=endpoints,
            engines=engines,
            workloads=workloads,
            rule_groups=groups,
        )


def read_workloads(path: Path) -> list[dict[str, Any]]:
    """What `kubectl get deployments,statefulsets -o json` printed."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        items = found.get("items", [found])
        return [item for item in items if "template" in item["spec"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise AdminCallFailed(
            f"{path} is no output of `kubectl get deployments,statefulsets -o json`: {error}"
        ) from None


def _whole(pool: dict[str, Any]) -> dict[str, Any]:
    """The admin API leaves out of a specification what is as usual."""
    usual = EngineSpec(model="x", served_names=("x",)).model_dump(mode="json")
    return {**pool, "spec": {**usual, **pool["spec"]}}


async def _database(settings: Settings) -> DatabaseFacts:
    database = Database.of(settings.database, name="tollway-check", pool_size=1, patient=True)
    try:
        await check_schema(database)
        async with database.read() as session:
            return await read_facts(session)
    except SchemaMismatch as mismatch:
        return DatabaseFacts(problem=str(mismatch))
    except DATABASE_ERRORS as error:
        return DatabaseFacts(problem=f"it cannot be used: {reason(error)}")
    finally:
        await database.close()


async def _not_ready(http: aiohttp.ClientSession, url: str) -> str | None:
    try:
        async with http.get(f"{url}/readyz") as answer:
            return None if answer.status == 200 else str((await answer.json()).get("reason", answer.status))
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
        return f"/readyz does not answer: {error or type(error).__name__}"


async def _status(http: aiohttp.ClientSession, url: str) -> int | None:
    try:
        async with http.get(url) as answer:
            return answer.status
    except (TimeoutError, aiohttp.ClientError, OSError):
        return None


async def _engine(
    http: aiohttp.ClientSession, settings: Settings, replica: dict[str, Any], pools: Sequence[dict[str, Any]]
) -> EngineFacts:
    facts = EngineFacts(replica["pool_id"], replica["url"])
    kind = next((pool["spec"]["kind"] for pool in pools if pool["id"] == facts.pool_id), "external")
    key = settings.upstream.engine_key() if kind == "tollway" else None
    facts = replace(facts, is_open=await _status(http, f"{facts.url}/v1/models") == 200)
    if key is not None:
        facts = replace(facts, status=await _engine_status(http, facts.url, key))
    return _with_metrics(facts, await _metrics(http, facts.url))


async def _engine_status(http: aiohttp.ClientSession, url: str, key: str) -> dict[str, Any] | None:
    try:
        async with http.get(f"{url}/internal/status", headers={"authorization": f"Bearer {key}"}) as answer:
            found = await answer.json() if answer.status == 200 else None
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


async def _metrics(http: aiohttp.ClientSession, url: str) -> str:
    try:
        async with http.get(f"{url}/metrics") as answer:
            return await answer.text() if answer.status == 200 else ""
    except (TimeoutError, aiohttp.ClientError, OSError):
        return ""


def _with_metrics(facts: EngineFacts, text: str) -> EngineFacts:
    cache: dict[str, str] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == _CACHE_INFO:
                    cache |= sample.labels
    except ValueError:
        return facts  # a stranger's page: nothing is known of it
    return replace(facts, load=read_exposition(text), cache=cache)


async def _rule_groups(http: aiohttp.ClientSession, url: str) -> list[dict[str, Any]]:
    try:
        async with http.get(f"{url.rstrip('/')}/api/v1/rules") as answer:
            return list((await answer.json())["data"]["groups"])
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError, KeyError, TypeError) as error:
        raise AdminCallFailed(
            f"{url} does not answer as Prometheus does: {error or type(error).__name__}"
        ) from None
