"""What crosses the ledger's border: reservations, holds, attempts and settlements. All frozen.

A settlement holds everything that is needed to write its event, so that it can wait in a spool file and be
applied by another process. What a request asked or answered is never in here.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal, NamedTuple, get_args
from uuid import UUID

from gateway.ids import KeyId, PoolId, ReplicaId, RequestId, RouteId, TenantId

__all__ = [
    "AttemptRecord",
    "BudgetKey",
    "Charge",
    "Entry",
    "Hold",
    "Prices",
    "Reservation",
    "Settlement",
    "SettlementStatus",
    "Take",
    "Timings",
    "UnbilledReason",
]

SettlementStatus = Literal["ok", "partial", "cancelled", "error", "unknown"]
UnbilledReason = Literal["retry", "our_error", "resume_prefill", "after_cancel", "overrun"]


class BudgetKey(NamedTuple):
    """One budget in one period: the row that is locked. Sorted by this key, always."""

    budget_id: str
    period_key: str


@dataclass(frozen=True, slots=True)
class Prices:
    """The price rows that a request is charged by, fixed when it is admitted. Nano-USD per token."""

    input_id: int
    cached_input_id: int
    output_id: int
    input_nanousd: Decimal
    cached_input_nanousd: Decimal
    output_nanousd: Decimal


@dataclass(frozen=True, slots=True)
class Reservation:
    """A request that asks for money. The two maxima are sent to the engine, which enforces them."""

    request_id: RequestId
    tenant_id: TenantId
    key_id: KeyId
    served_model: str
    route_id: RouteId
    pool_id: PoolId
    endpoint: str
    prices: Prices
    max_prompt_tokens: int
    max_output_tokens: int
    is_stream: bool = False
    request_class: str = "interactive"
    user_ref: str | None = None
    client_retry_count: int = 0
    estimated_prompt_tokens: int | None = None
    """Charged if the engine's figure is lost for good; the maximum when not given."""

    def __post_init__(self) -> None:
        assert self.max_prompt_tokens >= 0
        assert self.max_output_tokens >= 0
        assert self.client_retry_count >= 0

    @property
    def fallback_prompt_tokens(self) -> int:
        if self.estimated_prompt_tokens is None:
            return self.max_prompt_tokens
        return min(self.estimated_prompt_tokens, self.max_prompt_tokens)


@dataclass(frozen=True, slots=True)
class Take:
    """How much a hold took from one budget row."""

    budget_id: str
    period_key: str
    amount_nanousd: int

    @property
    def key(self) -> BudgetKey:
        return BudgetKey(self.budget_id, self.period_key)


@dataclass(frozen=True, slots=True)
class Hold:
    """A granted reservation. `is_recorded` is false if it was granted while Postgres was away: then no row
    exists, and the settlement finds the budget rows by itself."""

    reservation: Reservation
    amount_nanousd: int
    takes: tuple[Take, ...]
    reserved_at: datetime
    expires_at: datetime
    is_recorded: bool = True
    is_lease: bool = False
    """Of a gateway and not of a request: what it may hand out while Postgres is away."""
    lease_id: RequestId | None = None
    """The lease that this one was drawn from, while Postgres was away."""

    @property
    def request_id(self) -> RequestId:
        return self.reservation.request_id


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """What one engine did. Make it with `billed` or `unbilled`, or name every field for a mixture.

    `completion_tokens` are those reported to the caller; `overrun_tokens` came after a stop and are extra.
    """

    attempt: int
    replica_id: ReplicaId | None
    engine_epoch: str | None
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    billed_prompt_tokens: int
    billed_completion_tokens: int
    overrun_tokens: int = 0
    unbilled_reason: UnbilledReason | None = None
    resumed_from: int | None = None
    finish_reason: str | None = None

    def __post_init__(self) -> None:
        assert 0 <= self.cached_tokens <= self.prompt_tokens, "cached tokens are prompt tokens"
        assert 0 <= self.billed_prompt_tokens <= self.prompt_tokens
        assert 0 <= self.billed_completion_tokens <= self.completion_tokens
        assert self.overrun_tokens >= 0
        assert self.unbilled_reason is not None or self.unbilled_tokens == 0, "unbilled tokens need a reason"

    @classmethod
    def billed(
        cls,
        attempt: int,
        replica_id: ReplicaId | None,
        engine_epoch: str | None,
        *,
        prompt_tokens: int,
        cached_tokens: int,
        completion_tokens: int,
        overrun_tokens: int = 0,
        finish_reason: str | None = None,
    ) -> "AttemptRecord":
        """The ordinary case: the tenant pays for all that was reported."""
        return cls(
            attempt=attempt,
            replica_id=replica_id,
            engine_epoch=engine_epoch,
            prompt_tokens=prompt_tokens,
            cached_tokens=cached_tokens,
            completion_tokens=completion_tokens,
            billed_prompt_tokens=prompt_tokens,
            billed_completion_tokens=completion_tokens,
            overrun_tokens=overrun_tokens,
            finish_reason=finish_reason,
        )

    @classmethod
    def unbilled(
        cls,
        attempt: int,
        replica_id: ReplicaId | None,
        engine_epoch: str | None,
        reason: UnbilledReason,
        *,
        prompt_tokens: int = 0,
        cached_tokens: int = 0,
        completion_tokens: int = 0,
        finish_reason: str | None = None,
    ) -> "AttemptRecord":
        """Nobody pays for this attempt: it was retried, or the fault was ours."""
        return cls(
            attempt=attempt,
            replica_id=replica_id,
            engine_epoch=engine_epoch,
            prompt_tokens=prompt_tokens,
            cached_tokens=cached_tokens,
            completion_tokens=completion_tokens,
            billed_prompt_tokens=0,
            billed_completion_tokens=0,
            unbilled_reason=reason,
            finish_reason=finish_reason,
        )

    @property
    def unbilled_tokens(self) -> int:
        """Beside the overrun, which is never billed."""
        return (
            self.prompt_tokens
            - self.billed_prompt_tokens
            + self.completion_tokens
            - self.billed_completion_tokens
        )

    @property
    def billed_cached_tokens(self) -> int:
        return min(self.cached_tokens, self.billed_prompt_tokens)


@dataclass(frozen=True, slots=True)
class Timings:
    """Durations of a request as its caller saw them; null where there is none."""

    queue_ms: int | None = None
    ttft_ms: int | None = None
    e2e_ms: int | None = None
    tpot_us: int | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """How a request ended. Its tokens are the billed tokens of its attempts, so event = Σ billed always holds.

    A provisional settlement was made without full evidence: its attempts are assumptions that are charged but
    not stored, and better evidence may correct it once.
    """

    hold: Hold
    status: SettlementStatus
    occurred_at: datetime
    attempts: tuple[AttemptRecord, ...] = ()
    reasoning_tokens: int = 0
    timings: Timings = Timings()
    error_code: str | None = None
    is_provisional: bool = False

    def __post_init__(self) -> None:
        assert self.occurred_at.tzinfo is not None, "times are aware"
        assert self.status in get_args(SettlementStatus)
        assert len({record.attempt for record in self.attempts}) == len(self.attempts), "attempts differ"

    @property
    def request_id(self) -> RequestId:
        return self.hold.request_id


@dataclass(frozen=True, slots=True)
class Charge:
    """Tokens and their price, per component."""

    prompt_uncached_tokens: int
    prompt_cached_tokens: int
    completion_tokens: int
    input_nanousd: int
    cached_input_nanousd: int
    output_nanousd: int

    @property
    def amount_nanousd(self) -> int:
        return self.input_nanousd + self.cached_input_nanousd + self.output_nanousd


@dataclass(frozen=True, slots=True)
class Entry:
    """What an operator did to the money, as it is written down. `event_id` is None for a top-up."""

    idempotency_key: str
    kind: str
    tenant_id: TenantId | None
    amount_nanousd: int
    reason: str
    created_by: str
    occurred_at: datetime
    request_id: RequestId | None = None
    budget_id: str | None = None
    event_id: UUID | None = None
    is_repeated: bool = False
