"""Budgets, spend limits and alerts, credits and adjustments, exports, Stripe."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from gateway.http.description.shapes.common import Json

__all__ = [
    "Adjustment",
    "AlertRecord",
    "AlertRecordDetail",
    "Budget",
    "BudgetAlert",
    "BudgetPeriod",
    "ChangedBudget",
    "Credit",
    "Export",
    "MeterEvent",
    "OutageAllowance",
    "SpendAlert",
    "SpendLimit",
    "SpendLimitDeleted",
    "StripeCustomer",
]


class CurrentPeriod(TypedDict):
    id: str
    starts_at: int | None
    ends_at: int | None
    held_nanousd: int
    spent_nanousd: int
    remaining_nanousd: int
    is_exhausted: bool


class Budget(TypedDict):
    object: Literal["organization.budget"]
    id: str
    scope: Literal["organization", "tenant", "key"]
    project_id: str | None
    key_id: str | None
    period: Literal["daily", "weekly", "monthly", "prepaid"]
    zone: str
    limit_nanousd: int
    is_hard: bool
    current_period: CurrentPeriod
    created_at: int


class ChangedBudget(Budget):
    """`consequence`: what the change does to requests from now on, in a sentence; null when nothing."""

    consequence: str | None


class BudgetPeriod(TypedDict):
    object: Literal["organization.budget.period"]
    id: str
    held_nanousd: int
    spent_nanousd: int


class BudgetAlert(TypedDict):
    object: Literal["organization.budget.alert"]
    id: str
    budget_id: str
    threshold_nanousd: int | None
    threshold_percent: int | None
    recipients: list[str]
    subject_prefix: str | None
    created_at: int


class AlertRecord(TypedDict):
    """What has fired. `data` depends on the type."""

    object: Literal["organization.alert"]
    id: str
    type: str
    project_id: str | None
    data: Json
    created_at: int


class AlertDelivery(TypedDict):
    object: Literal["organization.alert.delivery"]
    id: str
    channel: str
    target: str
    attempts: int
    next_attempt_at: int | None
    delivered_at: int | None
    last_error: str | None


class AlertRecordDetail(AlertRecord):
    deliveries: list[AlertDelivery]


class OutageAllowance(TypedDict):
    object: Literal["organization.project.outage_allowance"]
    project_id: str
    amount_nanousd: int


class Enforcement(TypedDict):
    status: Literal["enforcing", "inactive"]


class SpendLimit(TypedDict):
    """In US cents."""

    object: Literal["organization.spend_limit", "project.spend_limit"]
    currency: Literal["USD"]
    interval: Literal["month"]
    threshold_amount: int
    enforcement: Enforcement


class SpendLimitDeleted(TypedDict):
    object: Literal["organization.spend_limit.deleted", "project.spend_limit.deleted"]
    deleted: bool


class AlertChannel(TypedDict):
    type: Literal["email"]
    recipients: list[str]
    subject_prefix: str | None


class SpendAlert(TypedDict):
    """In US cents."""

    object: Literal["organization.spend_alert", "project.spend_alert"]
    id: str
    currency: Literal["USD"]
    interval: Literal["month"]
    threshold_amount: int
    notification_channel: AlertChannel


class Credit(TypedDict):
    object: Literal["organization.credit"]
    id: str
    project_id: str | None
    budget_id: str | None
    amount_nanousd: int
    reason: str
    usage_event_id: str | None
    created_by: str
    created_at: int


class Adjustment(TypedDict):
    object: Literal["organization.adjustment"]
    id: str
    project_id: str | None
    corrects: str
    amount_nanousd: int
    reason: str
    usage_event_id: str | None
    created_by: str
    created_at: int


class ExportFile(TypedDict):
    name: str
    bytes: int
    sha256: str
    rows: int


class Export(TypedDict):
    """`rows`, `totals` and `files` are null until it has finished."""

    object: Literal["organization.export"]
    id: str
    format: str
    project_id: str | None
    start_date: str
    end_date: str
    destination: str
    status: str
    scheduled: bool
    attempts: int
    error: str | None
    rows: int | None
    totals: Json | None
    files: list[ExportFile] | None
    created_at: int
    finished_at: int | None


class StripeCustomer(TypedDict):
    object: Literal["organization.stripe_customer"]
    id: str
    project_id: str
    stripe_customer_id: str
    created_at: int


class MeterEvent(TypedDict):
    object: Literal["organization.meter_event"]
    id: str
    export_id: str
    project_id: str
    stripe_customer_id: str
    event_name: str
    timestamp: int
    amount_nanousd: int
    status: Literal["pending", "delivered", "refused", "expired", "uncertain"]
    attempts: int
    last_error: str | None
    delivered_at: int | None
