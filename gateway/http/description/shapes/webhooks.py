"""Webhook endpoints, a tenant's and the operator's, and their deliveries."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from gateway.alerts.webhooks.types import Format

__all__ = [
    "Delivery",
    "DeliveryDetail",
    "Endpoint",
    "EndpointDeleted",
    "EndpointTested",
    "EventTypes",
    "NewEndpoint",
    "NewOperatorEndpoint",
    "OperatorEndpoint",
    "OperatorEndpointTested",
]


class Endpoint(TypedDict):
    id: str
    object: Literal["webhook_endpoint"]
    created_at: int
    updated_at: int
    name: str
    url: str
    event_types: list[str]
    signing_secret_hint: str


class NewEndpoint(Endpoint):
    """The secret is shown here and nowhere else."""

    signing_secret: str


class OperatorEndpoint(Endpoint):
    project_id: str | None
    format: Format
    status: Literal["enabled", "paused", "disabled"]
    paused_until: int | None
    disabled_at: int | None
    disabled_reason: str | None


class NewOperatorEndpoint(OperatorEndpoint):
    signing_secret: str


class EndpointDeleted(TypedDict):
    id: str
    object: Literal["webhook_endpoint.deleted"]
    deleted: Literal[True]


class EndpointTested(TypedDict):
    object: Literal["webhook_endpoint.test"]
    webhook_endpoint_id: str
    event_type: str
    status_code: int
    success: Literal[True]


class OperatorEndpointTested(EndpointTested):
    answer: str
    """The beginning of what the receiver said."""


class EventTypes(TypedDict):
    object: Literal["list"]
    data: list[str]


class Delivery(TypedDict):
    object: Literal["webhook_endpoint.delivery"]
    id: str
    event_id: str
    event_type: str
    project_id: str | None
    status: Literal["pending", "delivered", "failed"]
    attempts: int
    next_attempt_at: int | None
    delivered_at: int | None
    last_error: str | None
    occurred_at: int
    created_at: int


class DeliveryAttempt(TypedDict):
    number: int
    started_at: int
    duration_ms: int
    status_code: int | None
    error: str | None
    answer: str | None


class DeliveryDetail(Delivery):
    log: list[DeliveryAttempt]
