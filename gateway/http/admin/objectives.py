"""Objectives: what is promised, to whom, about which model. What an objective is about does not change; what it
promises may, and then its history is counted anew.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field

from gateway.db import WriteSession
from gateway.errors import Conflict, InvalidValue, NotFound
from gateway.http.admin.common import (
    AdminParts,
    After,
    Body,
    Json,
    Limit,
    Page,
    bound_to,
    page_of,
    record,
    require_project,
    unix,
)
from gateway.slo.histogram import is_bound
from gateway.slo.repository.objectives import ObjectiveRepository
from gateway.slo.types import MILLION, WINDOW_DAYS, Objective, RequestClass, Sli
from gateway.tenancy.projects.repository import ProjectRepository

__all__ = ["ObjectiveRoutes", "milliseconds"]

THRESHOLD_MAX_MS = 3_600_000
Target = Annotated[float, Field(gt=0, lt=1)]
Threshold = Annotated[float, Field(gt=0, le=THRESHOLD_MAX_MS)]


class PromiseBody(Body):
    """`target`: the share of requests that shall be good, to six decimals. `threshold_ms`: at most so long, of at most
    two significant digits; none for availability."""

    target: Target
    threshold_ms: Threshold | None = None


class ObjectiveBody(PromiseBody):
    """Without a project it is about every project; without a model, about every model."""

    project_id: Annotated[str, Field(max_length=200)] | None = None
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    request_class: Annotated[RequestClass, Field(alias="class")] = "interactive"
    sli: Sli


class ObjectiveRoutes:
    def __init__(self, parts: AdminParts) -> None:
        self._p = parts
        self._objectives = ObjectiveRepository()
        self._projects = ProjectRepository()

    def register(self, router: APIRouter) -> None:
        router.add_api_route("/objectives", self.create, methods=["POST"])
        router.add_api_route("/objectives", self.list, methods=["GET"])
        router.add_api_route("/objectives/{objective_id}", self.retrieve, methods=["GET"])
        router.add_api_route("/objectives/{objective_id}", self.update, methods=["POST"])
        router.add_api_route("/objectives/{objective_id}", self.delete, methods=["DELETE"])

    async def create(self, request: Request, body: ObjectiveBody) -> Json:
        made = Objective(
            id=self._p.ids.new("objective"),
            tenant_id=body.project_id,
            served_model=body.model,
            request_class=body.request_class,
            sli=body.sli,
            threshold_us=_threshold_us(body.sli, body.threshold_ms),
            target_ppm=_target_ppm(body.target),
            created_at=self._p.clock.now(),
            is_recounted=False,
        )
        async with self._p.database.write() as session:
            await require_project(session, self._projects, body.project_id)
            if not await self._objectives.insert(session, made):
                raise Conflict("There is an objective about exactly these requests.")
            await self._record(session, request, made, "created", {"after": _facts(made)})
        return _objective(made)

    async def list(self, request: Request, limit: Limit = 20, after: After = None) -> Page:
        """A project sees its own and those that are about every project."""
        async with self._p.database.read() as session:
            rows = await self._objectives.page(session, bound_to(request), after, limit + 1)
        return page_of([_objective(row) for row in rows], limit)

    async def retrieve(self, request: Request, objective_id: str) -> Json:
        async with self._p.database.read() as session:
            return _objective(
                _found(await self._objectives.objective(session, objective_id, bound_to(request)))
            )

    async def update(self, request: Request, objective_id: str, body: PromiseBody) -> Json:
        async with self._p.database.write() as session:
            before = _found(await self._objectives.locked(session, objective_id))
            after = replace(
                before,
                threshold_us=_threshold_us(before.sli, body.threshold_ms),
                target_ppm=_target_ppm(body.target),
            )
            if after.threshold_us != before.threshold_us:
                after = replace(after, is_recounted=False)
            if after != before:
                await self._objectives.change(session, after)
                details = {"before": _facts(before), "after": _facts(after)}
                await self._record(session, request, after, "updated", details)
        return _objective(after)

    async def delete(self, request: Request, objective_id: str) -> Json:
        async with self._p.database.write() as session:
            before = _found(await self._objectives.locked(session, objective_id))
            await self._objectives.delete(session, objective_id)
            await self._record(session, request, before, "deleted", {"before": _facts(before)})
        return {"object": "organization.objective.deleted", "id": objective_id, "deleted": True}

    async def _record(
        self, session: WriteSession, request: Request, objective: Objective, verb: str, details: Json
    ) -> None:
        resource = ("objective", objective.id)
        await record(self._p, session, request, f"objective.{verb}", resource, objective.tenant_id, details)


def milliseconds(value_us: float | None) -> float | None:
    return value_us / 1_000 if value_us is not None else None


def _threshold_us(sli: Sli, threshold_ms: float | None) -> int:
    if sli == "availability":
        if threshold_ms is not None:
            raise InvalidValue("Availability has no threshold.", "threshold_ms")
        return 0
    if threshold_ms is None:
        raise InvalidValue("A latency needs a threshold.", "threshold_ms")
    threshold_us = round(threshold_ms * 1_000)
    if abs(threshold_us - threshold_ms * 1_000) > 1e-6 * threshold_us or not is_bound(threshold_us):
        raise InvalidValue(
            "A threshold has at most two significant digits, such as 750 or 1200.", "threshold_ms"
        )
    return threshold_us


def _target_ppm(target: float) -> int:
    target_ppm = round(target * MILLION)
    if not 0 < target_ppm < MILLION:
        raise InvalidValue("A target is above 0 and below 1, to six decimals.", "target")
    return target_ppm


def _found(objective: Objective | None) -> Objective:
    if objective is None:
        raise NotFound("No such objective.")
    return objective


def _facts(objective: Objective) -> Json:
    """What the audit log keeps of it."""
    return {
        "project_id": objective.tenant_id,
        "model": objective.served_model,
        "class": objective.request_class,
        "sli": objective.sli,
        "threshold_ms": milliseconds(objective.threshold_us or None),
        "target": objective.target_ppm / MILLION,
    }


def _objective(objective: Objective) -> Json:
    return {
        "object": "organization.objective",
        "id": objective.id,
        **_facts(objective),
        "window_days": WINDOW_DAYS,
        "is_counted": objective.is_recounted,
        "created_at": unix(objective.created_at),
    }
