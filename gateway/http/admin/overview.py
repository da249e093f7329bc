"""`GET /overview`: the live half of the first page, in one answer: pools with their replicas' last figures, the newest
alerts, the newest changes. Promises are `slo/board`, money is `usage/usual`.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from gateway.http.admin.access import Caller
from gateway.http.admin.common import AdminParts, Json, caller_of, json_answer, unix
from gateway.live.repository.overview import NEWEST, Figures, Overview, PoolFigures, ReplicaFigures

__all__ = ["OverviewRoutes"]


class OverviewRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._overview = Overview()

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/overview", self.retrieve, methods=["GET"])

    async def retrieve(self, request: Request) -> Response:
        """What the caller's role may not read by its own route is null."""
        caller = caller_of(request)
        now = self._p.clock.now()
        async with self._p.database.read() as session:
            found = await self._overview.read(
                session,
                now,
                alerts=_may(caller, "GET /alerts"),
                changes=_may(caller, "GET /audit_logs"),
            )
        return json_answer(
            {
                "object": "organization.overview",
                "at": unix(now),
                "pools": [_pool(pool) for pool in found.pools] if _may(caller, "GET /pools") else None,
                "alerts": _alerts(found),
                "changes": _changes(found),
            }
        )


def _may(caller: Caller, route: str) -> bool:
    return route in caller.may()


def _pool(pool: PoolFigures) -> Json:
    return {
        "id": pool.id,
        "name": pool.name,
        "desired_state": pool.desired_state,
        "is_rolling": any(replica.is_outdated for replica in pool.replicas),
        "ready": sum(replica.state == "ready" for replica in pool.replicas),
        "replicas": [_replica(replica) for replica in pool.replicas],
    }


def _replica(replica: ReplicaFigures) -> Json:
    return {
        "id": replica.id,
        "state": replica.state,
        "node": replica.node,
        "restarts": replica.restarts,
        "last_error": replica.last_error,
        "sampled_at": unix(replica.sampled_at),
        "running": replica.running,
        "waiting": replica.waiting,
        "kv_usage": replica.kv_usage,
        "tokens_per_second": replica.tokens_per_second,
    }


def _alerts(found: Figures) -> list[Json] | None:
    if found.alerts is None:
        return None
    return [
        {
            "id": alert.id,
            "type": alert.type,
            "project_id": alert.tenant_id,
            "occurred_at": unix(alert.occurred_at),
            "payload": alert.payload,
        }
        for alert in found.alerts[:NEWEST]
    ]


def _changes(found: Figures) -> list[Json] | None:
    if found.changes is None:
        return None
    return [
        {
            "action": row.action,
            "actor_kind": row.actor_kind,
            "actor_id": row.actor_id,
            "actor_email": found.emails.get(row.actor_id),
            "resource_kind": row.resource_kind,
            "resource_id": row.resource_id,
            "project_id": row.tenant_id,
            "occurred_at": unix(row.occurred_at),
        }
        for row in found.changes[:NEWEST]
    ]
