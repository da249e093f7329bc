"""Two weeks of four tenants' requests, so that a console has something to show: written as the ledger writes them."""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from gateway.db import Database
from gateway.ids import KeyId, PoolId, RouteId, TenantId
from gateway.ledger.types import Prices, Settlement, Timings
from tests.gateway.usage_events import settled, write

__all__ = ["NAMES", "make_history"]

NAMES = ("Northwind support", "Atlas search", "Quill drafting", "Internal evals")
SHARES = (0.46, 0.3, 0.17, 0.07)
DAYS = 14
PER_HOUR = 9
Admin = Callable[[str, str, Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Caller:
    tenant: TenantId
    key: KeyId


async def make_history(
    admin: Admin, database: Database, now: datetime, pool_id: str, model: str, seed: int = 7
) -> list[str]:
    """The new tenants' ids. `admin(method, path, body)` calls the admin API."""
    draw = random.Random(seed)
    callers = []
    for name in NAMES:
        tenant = (await admin("POST", "/projects", {"name": name}))["id"]
        key = (await admin("POST", f"/projects/{tenant}/api_keys", {"name": "production"}))["id"]
        callers.append(Caller(TenantId(tenant), KeyId(key)))
    route = next(one for one in (await admin("GET", "/routes", None))["data"] if one["served_model"] == model)
    asked = {
        "served_model": model,
        "pool_id": PoolId(pool_id),
        "route_id": RouteId(route["id"]),
        "prices": await _prices(admin, route["sku"]),
    }
    requests = [
        _request(number, at, draw, draw.choices(callers, SHARES)[0], asked)
        for number, at in enumerate(_instants(now, draw))
    ]
    for start in range(0, len(requests), 400):
        await write(database, requests[start : start + 400], fold=start + 400 >= len(requests))
    return [caller.tenant for caller in callers]


async def _prices(admin: Admin, sku: str) -> Prices:
    rows = {one["component"]: one for one in (await admin("GET", f"/prices?sku={sku}", None))["data"]}
    return Prices(
        input_id=int(rows["input"]["id"]),
        cached_input_id=int(rows["cached_input"]["id"]),
        output_id=int(rows["output"]["id"]),
        input_nanousd=Decimal(rows["input"]["nanousd_per_token"]),
        cached_input_nanousd=Decimal(rows["cached_input"]["nanousd_per_token"]),
        output_nanousd=Decimal(rows["output"]["nanousd_per_token"]),
    )


def _instants(now: datetime, draw: random.Random) -> list[datetime]:
    """More by day than by night, fewer at weekends."""
    found = []
    for hour in range(DAYS * 24):
        begin = now - timedelta(hours=hour + 1)
        by_day = 1 + 0.8 * math.sin((begin.hour - 8) / 24 * 2 * math.pi)
        weekend = 0.45 if begin.weekday() >= 5 else 1.0
        for _ in range(round(PER_HOUR * by_day * weekend * draw.uniform(0.7, 1.3))):
            found.append(begin + timedelta(seconds=draw.uniform(0, 3600)))
    return sorted(found)


def _request(
    number: int, at: datetime, draw: random.Random, caller: Caller, asked: dict[str, Any]
) -> Settlement:
    prompt = round(draw.lognormvariate(6.4, 0.9))
    cached = round(prompt * draw.choice((0, 0, 0.35, 0.8)))
    completion = round(draw.lognormvariate(5.0, 0.8))
    status = draw.choices(("ok", "cancelled", "error", "partial"), (0.955, 0.025, 0.013, 0.007))[0]
    is_streamed = draw.random() < 0.8
    ttft = draw.lognormvariate(5.4, 0.6)
    tpot = draw.lognormvariate(2.9, 0.25)
    timings = Timings(
        queue_ms=round(draw.expovariate(1 / 18)),
        ttft_ms=round(ttft),
        e2e_ms=round(ttft + tpot * completion),
        tpot_us=round(tpot * 1000) if is_streamed and completion > 1 else None,
    )
    fields = {
        **asked,
        "tenant_id": caller.tenant,
        "key_id": caller.key,
        "is_stream": is_streamed,
        "request_class": draw.choices(("interactive", "batch"), (0.9, 0.1))[0],
    }
    return settled(
        number,
        at,
        tokens=(prompt, cached, completion),
        asked=fields,
        status=status,
        error_code="timeout" if status == "error" else None,
        timings=timings,
    )
