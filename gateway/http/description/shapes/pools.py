"""Pools, replicas, routes and prices."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from gateway.pool.spec import EngineSpec
from gateway.pool.traffic import TrafficPolicy

__all__ = ["Pool", "PoolNode", "Price", "Replica", "Route"]


class Load(TypedDict):
    """What a replica last said about its work; `kv_usage` is the share of pages held."""

    running: int
    waiting: int
    kv_usage: float


class Replica(TypedDict):
    object: Literal["organization.pool.replica"]
    id: str
    pool_id: str
    node: str
    url: str | None
    gpus: list[int]
    devices: list[str]
    generation: int
    state: str
    restarts: int
    last_error: str | None
    created_at: int
    ready_at: int | None
    load: Load | None


class PoolNode(TypedDict):
    """How far the replicas of one node are; `since` the phase began. `wanted_replicas`: how many its supervisor keeps now.
    `replicas`: the autoscaler's number, if it has chosen one."""

    node: str
    phase: Literal["settled", "starting", "rolling", "blocked", "crashing", "stopping", "stopped"]
    reason: str
    since: int
    wanted_replicas: int
    replicas: int | None
    scaled_at: int | None
    scaled_for: str | None


class Pool(TypedDict):
    """`spec` holds what was given; what it leaves out has its default."""

    object: Literal["organization.pool"]
    id: str
    name: str
    spec: EngineSpec
    desired_state: Literal["running", "stopped"]
    reserved_projects: list[str]
    traffic: TrafficPolicy
    has_api_key: bool
    generation: int
    nodes: list[PoolNode]
    replicas: list[Replica]


class Route(TypedDict):
    object: Literal["organization.route"]
    id: str
    project_id: str | None
    served_model: str
    pool_id: str
    sku: str
    default_max_output: int
    published: bool
    created_at: int


class Price(TypedDict):
    """Nano-USD per token, as a decimal."""

    object: Literal["organization.price"]
    id: str
    sku: str
    component: Literal["input", "cached_input", "output", "batch_input", "batch_cached_input", "batch_output"]
    valid_from: int
    valid_until: int | None
    nanousd_per_token: str
