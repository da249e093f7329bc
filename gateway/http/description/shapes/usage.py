"""Usage, costs, requests and the ledger's lines."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

__all__ = [
    "Breakdown",
    "CompletionsBucket",
    "CostsBucket",
    "EmbeddingsBucket",
    "RequestDetail",
    "RequestLine",
    "UsageEvent",
    "Usual",
]

Status = Literal["ok", "partial", "cancelled", "error", "unknown"]


class CompletionsResult(TypedDict):
    """What was not grouped by is null."""

    object: Literal["organization.usage.completions.result"]
    num_model_requests: int
    input_tokens: int
    input_uncached_tokens: int
    input_cached_tokens: int
    input_text_tokens: int
    input_cached_text_tokens: int
    input_audio_tokens: int
    input_cached_audio_tokens: int
    input_image_tokens: int
    input_cached_image_tokens: int
    output_tokens: int
    output_text_tokens: int
    output_audio_tokens: int
    output_image_tokens: int
    project_id: str | None
    user_id: str | None
    api_key_id: str | None
    model: str | None
    batch: bool | None
    service_tier: str | None
    api_source: str | None


class EmbeddingsResult(TypedDict):
    """What was not grouped by is null."""

    object: Literal["organization.usage.embeddings.result"]
    num_model_requests: int
    input_tokens: int
    project_id: str | None
    user_id: str | None
    api_key_id: str | None
    model: str | None


class Amount(TypedDict):
    """USD, exact: a decimal of nine places at most."""

    value: float
    currency: Literal["usd"]


class CostsResult(TypedDict):
    """What was not grouped by is null."""

    object: Literal["organization.costs.result"]
    amount: Amount
    amount_nanousd: int
    quantity: int | None
    quantity_unit: Literal["tokens"] | None
    project_id: str | None
    user_id: str | None
    api_key_id: str | None
    line_item: str | None
    api_source: str | None


class Bucket(TypedDict):
    object: Literal["bucket"]
    start_time: int
    end_time: int


class CompletionsBucket(Bucket):
    results: list[CompletionsResult]


class EmbeddingsBucket(Bucket):
    results: list[EmbeddingsResult]


class CostsBucket(Bucket):
    results: list[CostsResult]


class Sums(TypedDict):
    num_model_requests: int
    input_tokens: int
    input_cached_tokens: int
    output_tokens: int
    amount_nanousd: int


class ComparedSums(Sums):
    """`compared`: the same of the other range; null when none was asked for."""

    compared: Sums | None


class BreakdownGroup(ComparedSums):
    """Of the one dimension that was asked for."""

    project_id: NotRequired[str | None]
    api_key_id: NotRequired[str | None]
    model: NotRequired[str | None]
    pool_id: NotRequired[str | None]
    endpoint: NotRequired[str | None]
    class_: NotRequired[Annotated[str | None, Field(alias="class")]]
    status: NotRequired[str | None]


class Breakdown(TypedDict):
    object: Literal["organization.usage.breakdown"]
    start_time: int
    end_time: int
    compare_start_time: int | None
    compare_end_time: int | None
    total: ComparedSums
    data: list[BreakdownGroup]
    has_more: bool


class UsualSums(Sums):
    """Figure by figure; null when there is no earlier week."""

    usual: Sums | None
    lowest: Sums | None
    highest: Sums | None


class UsualHour(UsualSums):
    start_time: int
    end_time: int


class Usual(TypedDict):
    object: Literal["organization.usage.usual"]
    start_time: int
    end_time: int
    weeks: int
    data: list[UsualHour]
    total: UsualSums


class RequestLine(TypedDict):
    """Pools and routes are shown to the operator alone."""

    object: Literal["organization.request"]
    id: str
    event_id: str
    occurred_at: int
    project_id: str
    api_key_id: str | None
    user_id: str | None
    model: str
    endpoint: str
    class_: Annotated[str, Field(alias="class")]
    stream: bool
    status: Status
    error_code: str | None
    input_tokens: int
    input_cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    amount_nanousd: int
    net_amount_nanousd: int
    queue_ms: int | None
    ttft_ms: int | None
    e2e_ms: int | None
    tpot_us: int | None
    client_retry_count: int
    pool_id: NotRequired[str | None]
    route_id: NotRequired[str | None]


class RequestPrice(TypedDict):
    id: int
    sku: str
    component: str
    nanousd_per_token: str
    valid_from: int


class RequestAttempt(TypedDict):
    """Replicas are shown to the operator alone."""

    attempt: int
    input_tokens: int | None
    input_cached_tokens: int | None
    output_tokens: int | None
    overrun_tokens: int | None
    billed_input_tokens: int
    billed_output_tokens: int
    unbilled_reason: str | None
    resumed_from: int | None
    finish_reason: str | None
    queue_ms: int | None
    ttft_ms: int | None
    e2e_ms: int | None
    replica_id: NotRequired[str | None]
    engine_epoch: NotRequired[str | None]


class RequestCorrection(TypedDict):
    event_id: str
    kind: str
    occurred_at: int
    input_tokens: int
    input_cached_tokens: int
    output_tokens: int
    amount_nanousd: int
    reason: str | None
    created_by: NotRequired[str]


class RequestDetail(RequestLine):
    end_user: str | None
    recorded_at: int
    is_provisional: bool
    input_nanousd: int
    cached_input_nanousd: int
    output_nanousd: int
    over_hold_nanousd: int
    prices: list[RequestPrice]
    attempts: list[RequestAttempt]
    corrections: list[RequestCorrection]


class UsageEvent(TypedDict):
    object: Literal["organization.usage_event"]
    id: str
    kind: str
    request_id: str
    project_id: str
    api_key_id: str | None
    user_ref: str | None
    model: str
    pool_id: str | None
    endpoint: str
    class_: Annotated[str, Field(alias="class")]
    stream: bool
    status: Status
    error_code: str | None
    prompt_uncached_tokens: int
    prompt_cached_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    input_nanousd: int
    cached_input_nanousd: int
    output_nanousd: int
    adjustment_nanousd: int
    amount_nanousd: int
    ttft_ms: int | None
    e2e_ms: int | None
    tpot_us: int | None
    client_retry_count: int
    corrects: str | None
    occurred_at: int
    recorded_at: int
