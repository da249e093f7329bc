"""Shapes of what only the console's pages ask for: the overview, and what search finds."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from gateway.http.description.shapes.common import Json

__all__ = ["Found", "Overview"]


class ReplicaNow(TypedDict):
    """Figures are of the last minute, else null."""

    id: str
    state: Literal["starting", "ready", "draining", "failed", "lost"]
    node: str
    restarts: int
    last_error: str | None
    sampled_at: int | None
    running: int | None
    waiting: int | None
    kv_usage: float | None
    tokens_per_second: float | None


class PoolNow(TypedDict):
    id: str
    name: str
    desired_state: Literal["running", "stopped"]
    is_rolling: bool
    ready: int
    replicas: list[ReplicaNow]


class NewestAlert(TypedDict):
    id: str
    type: str
    project_id: str | None
    occurred_at: int
    payload: Json


class NewestChange(TypedDict):
    action: str
    actor_kind: Literal["admin_key", "api_key", "user", "system"]
    actor_id: str
    actor_email: str | None
    resource_kind: str
    resource_id: str
    project_id: str | None
    occurred_at: int


class Overview(TypedDict):
    """What the caller's role may not read by its own route is null."""

    object: Literal["organization.overview"]
    at: int
    pools: list[PoolNow] | None
    alerts: list[NewestAlert] | None
    changes: list[NewestChange] | None


class Hit(TypedDict):
    kind: Literal["project", "api_key", "model", "request"]
    id: str
    name: str
    project_id: str | None


class Found(TypedDict):
    object: Literal["organization.search"]
    data: list[Hit]
