"""Tables of the money itself: budgets, holds, settled requests, usage events and attempts.

Amounts are integer nano-USD. `usage_event` is append-only and partitioned by month of `occurred_at`;
`settled_request` is the only guard against charging twice.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Boolean, CheckConstraint, ForeignKey, Index, SmallInteger, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from gateway.db import Base

__all__ = [
    "Attempt",
    "Budget",
    "BudgetPeriod",
    "BudgetRefusal",
    "Hold",
    "LedgerEntry",
    "OutageAllowance",
    "SettledRequest",
    "UsageEvent",
    "UserPseudonym",
]

_NOW = text("now()")
_ZERO = text("0")


class Budget(Base):
    """A limit on one scope: the organisation, a tenant, or a key. No row, no limit, and nothing is counted.

    `prepaid` budgets have one period without an end; a top-up raises the limit.
    """

    __tablename__ = "budget"
    __table_args__ = (
        CheckConstraint("scope IN ('organization', 'tenant', 'key')", name="scope"),
        CheckConstraint(
            "(scope = 'organization') = (tenant_id IS NULL) AND (scope = 'key') = (key_id IS NOT NULL)",
            name="scope_ids",
        ),
        CheckConstraint("period IN ('daily', 'weekly', 'monthly', 'prepaid')", name="period"),
        CheckConstraint("limit_nanousd >= 0", name="limit_not_negative"),
        Index(
            "uq_budget_scope_period",
            "scope",
            "tenant_id",
            "key_id",
            "period",
            unique=True,
            postgresql_nulls_not_distinct=True,
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    scope: Mapped[str]
    tenant_id: Mapped[str | None] = mapped_column(ForeignKey("tenant.id"))
    key_id: Mapped[str | None]
    period: Mapped[str]
    zone: Mapped[str] = mapped_column(server_default="UTC")
    limit_nanousd: Mapped[int]
    # A soft budget is counted and reported; it never refuses.
    is_hard: Mapped[bool] = mapped_column(Boolean, server_default=text("true"))
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class BudgetPeriod(Base):
    """What one budget holds and has spent in one period. Made by the first reserve that needs it.

    There is no check on the sum: the limit is enforced only in reserve's decision, under this row's lock. There is
    no foreign key either: a budget may be deleted, what was counted under it stays.
    """

    __tablename__ = "budget_period"
    __table_args__ = (
        CheckConstraint("held_nanousd >= 0", name="held_not_negative"),
        {"postgresql_with": {"fillfactor": "50"}},
    )

    budget_id: Mapped[str] = mapped_column(primary_key=True)
    period_key: Mapped[str] = mapped_column(primary_key=True)
    held_nanousd: Mapped[int] = mapped_column(server_default=_ZERO)
    spent_nanousd: Mapped[int] = mapped_column(server_default=_ZERO)


class BudgetRefusal(Base):
    """A hard budget refused a request for what was spent under this limit. Written once, seconds after the refusal."""

    __tablename__ = "budget_refusal"

    budget_id: Mapped[str] = mapped_column(primary_key=True)
    period_key: Mapped[str] = mapped_column(primary_key=True)
    limit_nanousd: Mapped[int] = mapped_column(primary_key=True)
    refused_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class OutageAllowance(Base):
    """How much a tenant may spend at each gateway while the database is away, from a lease. No row: nothing."""

    __tablename__ = "outage_allowance"
    __table_args__ = (CheckConstraint("amount_nanousd > 0", name="positive"),)

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenant.id"), primary_key=True)
    amount_nanousd: Mapped[int]
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class Hold(Base):
    """Money reserved for one request in flight, with all that is needed to settle it without its gateway.

    A lease is the hold of a gateway and not of a request: an allowance that it hands out while the database is away.

    `takes` lists the exact budget rows: [{"budget_id", "period_key", "amount_nanousd"}].
    """

    __tablename__ = "hold"
    __table_args__ = (
        CheckConstraint("amount_nanousd >= 0", name="not_negative"),
        Index("ix_hold_expires_at", "expires_at"),
        Index("ix_hold_instance_id", "instance_id"),
    )

    request_id: Mapped[str] = mapped_column(primary_key=True)
    instance_id: Mapped[str]
    tenant_id: Mapped[str]
    key_id: Mapped[str]
    user_ref: Mapped[str | None]
    served_model: Mapped[str]
    route_id: Mapped[str]
    pool_id: Mapped[str]
    endpoint: Mapped[str]
    request_class: Mapped[str]
    is_stream: Mapped[bool] = mapped_column(Boolean)
    client_retry_count: Mapped[int] = mapped_column(SmallInteger)
    price_input_id: Mapped[int]
    price_cached_input_id: Mapped[int]
    price_output_id: Mapped[int]
    max_prompt_tokens: Mapped[int]
    max_output_tokens: Mapped[int]
    # Charged if the engine's own figure is lost for good.
    estimated_prompt_tokens: Mapped[int]
    amount_nanousd: Mapped[int]
    takes: Mapped[list[dict[str, Any]]] = mapped_column(JSONB)
    reserved_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    is_lease: Mapped[bool] = mapped_column(Boolean, server_default=text("false"))


class SettledRequest(Base):
    """The once-only guard. `is_provisional`: settled without full evidence; better evidence may correct it once."""

    __tablename__ = "settled_request"
    __table_args__ = (Index("ix_settled_request_settled_at", "settled_at"),)

    request_id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str]
    event_id: Mapped[UUID]
    occurred_at: Mapped[datetime]
    is_provisional: Mapped[bool] = mapped_column(Boolean)
    settled_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class UsageEvent(Base):
    """One settled request, or a correction of one (`corrects`, with signed differences).

    What an operator writes has a `kind` of its own, no tokens, and its whole amount in `adjustment_nanousd`: an
    `adjustment` corrects a request, a `credit` belongs to a tenant and to no request, key, model or price (empty
    text, 0). Requests are counted where `kind = 'request' AND corrects IS NULL`.
    """

    __tablename__ = "usage_event"
    __table_args__ = (
        CheckConstraint("status IN ('ok', 'partial', 'cancelled', 'error', 'unknown')", name="status"),
        CheckConstraint("kind IN ('request', 'adjustment', 'credit')", name="kind"),
        CheckConstraint(
            "(kind = 'request') = (adjustment_nanousd = 0) AND (kind <> 'adjustment' OR corrects IS NOT NULL)"
            " AND (kind <> 'credit' OR corrects IS NULL)",
            name="adjustment_by_hand",
        ),
        CheckConstraint(
            "amount_nanousd = input_nanousd + cached_input_nanousd + output_nanousd + adjustment_nanousd",
            name="amount_is_sum",
        ),
        CheckConstraint(
            "kind <> 'request' OR corrects IS NOT NULL OR least(prompt_uncached_tokens, prompt_cached_tokens, completion_tokens,"
            " reasoning_tokens, amount_nanousd, over_hold_nanousd) >= 0",
            name="negative_only_if_correction",
        ),
        Index("ix_usage_event_occurred_at_brin", "occurred_at", postgresql_using="brin"),
        Index("ix_usage_event_recorded_at_brin", "recorded_at", postgresql_using="brin"),
        Index(
            "ix_usage_event_tenant_id_occurred_at_event_id", "tenant_id", text("occurred_at DESC"), "event_id"
        ),
        Index("ix_usage_event_request_id", "request_id"),
        Index("ix_usage_event_key_id_occurred_at_event_id", "key_id", "occurred_at", "event_id"),
        Index(
            "ix_usage_event_user_ref_occurred_at_event_id",
            "user_ref",
            "occurred_at",
            "event_id",
            postgresql_where=text("user_ref IS NOT NULL"),
        ),
        Index("ix_usage_event_not_ok", "occurred_at", "event_id", postgresql_where=text("status <> 'ok'")),
        Index(
            "ix_usage_event_tenant_id_not_ok",
            "tenant_id",
            "occurred_at",
            "event_id",
            postgresql_where=text("status <> 'ok'"),
        ),
        {"postgresql_partition_by": "RANGE (occurred_at)"},
    )

    occurred_at: Mapped[datetime] = mapped_column(primary_key=True)
    event_id: Mapped[UUID] = mapped_column(primary_key=True)
    request_id: Mapped[str]
    tenant_id: Mapped[str]
    key_id: Mapped[str]
    user_ref: Mapped[str | None]
    served_model: Mapped[str]
    route_id: Mapped[str]
    pool_id: Mapped[str]
    endpoint: Mapped[str]
    request_class: Mapped[str]
    is_stream: Mapped[bool] = mapped_column(Boolean)
    status: Mapped[str]
    error_code: Mapped[str | None]
    prompt_uncached_tokens: Mapped[int]
    prompt_cached_tokens: Mapped[int]
    completion_tokens: Mapped[int]
    reasoning_tokens: Mapped[int]
    input_nanousd: Mapped[int]
    cached_input_nanousd: Mapped[int]
    output_nanousd: Mapped[int]
    adjustment_nanousd: Mapped[int] = mapped_column(server_default=_ZERO)
    amount_nanousd: Mapped[int]
    # Actual above the hold; possible only with engines that do not enforce the maxima.
    over_hold_nanousd: Mapped[int]
    price_input_id: Mapped[int]
    price_cached_input_id: Mapped[int]
    price_output_id: Mapped[int]
    queue_ms: Mapped[int | None]
    ttft_ms: Mapped[int | None]
    e2e_ms: Mapped[int | None]
    # Microseconds: a whole millisecond is too coarse for a time per token.
    tpot_us: Mapped[int | None]
    client_retry_count: Mapped[int] = mapped_column(SmallInteger)
    corrects: Mapped[UUID | None]
    kind: Mapped[str] = mapped_column(server_default="request")
    # When it really happened, if its billing period was closed by then: it is an adjustment in the open one.
    late_from: Mapped[datetime | None]
    recorded_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class LedgerEntry(Base):
    """What an operator did to the money, why, and the key under which it may be repeated. Written once.

    `adjustment` and `credit` have a usage event; a `top_up` raised a prepaid budget's limit instead.
    """

    __tablename__ = "ledger_entry"
    __table_args__ = (
        CheckConstraint("kind IN ('adjustment', 'credit', 'top_up')", name="kind"),
        CheckConstraint("amount_nanousd <> 0", name="not_zero"),
        CheckConstraint(
            "(kind = 'adjustment') = (request_id IS NOT NULL) AND (kind = 'top_up') = (budget_id IS NOT NULL)"
            " AND (kind = 'top_up') = (event_id IS NULL) AND (kind = 'top_up' OR tenant_id IS NOT NULL)",
            name="about",
        ),
        Index("ix_ledger_entry_tenant_id_occurred_at", "tenant_id", "occurred_at"),
    )

    idempotency_key: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    tenant_id: Mapped[str | None] = mapped_column(ForeignKey("tenant.id"))
    # Signed: what the tenant pays more (adjustment), less (credit: negative), or what was paid in (top-up).
    amount_nanousd: Mapped[int]
    reason: Mapped[str]
    created_by: Mapped[str]
    occurred_at: Mapped[datetime]
    request_id: Mapped[str | None]
    budget_id: Mapped[str | None]
    event_id: Mapped[UUID | None]
    recorded_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class Attempt(Base):
    """What one engine did for a request: journal = billed + unbilled, and the event is the sum of billed."""

    __tablename__ = "attempt"
    __table_args__ = (
        Index("ix_attempt_recorded_at_brin", "recorded_at", postgresql_using="brin"),
        CheckConstraint(
            "unbilled_reason IN ('retry', 'our_error', 'resume_prefill', 'after_cancel', 'overrun')",
            name="unbilled_reason",
        ),
        CheckConstraint(
            "billed_prompt_tokens BETWEEN 0 AND prompt_tokens AND cached_tokens BETWEEN 0 AND prompt_tokens"
            " AND billed_completion_tokens BETWEEN 0 AND completion_tokens AND overrun_tokens >= 0",
            name="billed_within_produced",
        ),
        CheckConstraint(
            "unbilled_reason IS NOT NULL OR (billed_prompt_tokens = prompt_tokens"
            " AND billed_completion_tokens = completion_tokens)",
            name="unbilled_has_reason",
        ),
    )

    request_id: Mapped[str] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    tenant_id: Mapped[str]
    replica_id: Mapped[str | None]
    engine_epoch: Mapped[str | None]
    prompt_tokens: Mapped[int]
    cached_tokens: Mapped[int]
    completion_tokens: Mapped[int]
    # Produced after a stop that only the engine's API process could see; unbilled beside the reason below.
    overrun_tokens: Mapped[int]
    billed_prompt_tokens: Mapped[int]
    billed_completion_tokens: Mapped[int]
    unbilled_reason: Mapped[str | None]
    resumed_from: Mapped[int | None] = mapped_column(SmallInteger)
    finish_reason: Mapped[str | None]
    recorded_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class UserPseudonym(Base):
    """Which end user a `user_ref` stands for. Erasing a row leaves the money intact."""

    __tablename__ = "user_pseudonym"

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenant.id"), primary_key=True)
    user_ref: Mapped[str] = mapped_column(primary_key=True)
    end_user: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
