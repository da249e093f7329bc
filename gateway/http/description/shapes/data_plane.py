"""OpenAI's answers as they leave the data plane. Engines may say more: most of these shapes are open."""

from __future__ import annotations

from typing import Literal, NotRequired

from pydantic import with_config
from typing_extensions import TypedDict

from gateway.http.description.shapes.common import OPEN, Json

__all__ = [
    "Batch",
    "ChatCompletion",
    "ChatCompletionChunk",
    "Completion",
    "DataFile",
    "EmbeddingList",
    "Health",
    "Model",
    "ModelList",
    "Readiness",
    "Response",
    "ResponseEvent",
]


@with_config(OPEN)
class TokenUsage(TypedDict):
    prompt_tokens: int
    completion_tokens: NotRequired[int]
    total_tokens: int


@with_config(OPEN)
class ChatMessage(TypedDict):
    role: Literal["assistant"]
    content: str | None
    tool_calls: NotRequired[list[Json] | None]


@with_config(OPEN)
class ChatChoice(TypedDict):
    index: int
    message: ChatMessage
    finish_reason: str | None
    logprobs: NotRequired[Json | None]


@with_config(OPEN)
class ChatCompletion(TypedDict):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: TokenUsage


@with_config(OPEN)
class ChatDelta(TypedDict):
    role: NotRequired[str | None]
    content: NotRequired[str | None]
    tool_calls: NotRequired[list[Json] | None]


@with_config(OPEN)
class ChatChunkChoice(TypedDict):
    index: int
    delta: ChatDelta
    finish_reason: NotRequired[str | None]
    logprobs: NotRequired[Json | None]


@with_config(OPEN)
class ChatCompletionChunk(TypedDict):
    """One event of a stream, which ends with `[DONE]`. `usage` comes last, in a chunk without choices, when asked for."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: NotRequired[TokenUsage | None]


@with_config(OPEN)
class CompletionChoice(TypedDict):
    index: int
    text: str
    finish_reason: NotRequired[str | None]
    logprobs: NotRequired[Json | None]


@with_config(OPEN)
class Completion(TypedDict):
    """Whole, or one event of a stream, which ends with `[DONE]`."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: NotRequired[TokenUsage | None]


@with_config(OPEN)
class Embedding(TypedDict):
    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


@with_config(OPEN)
class EmbeddingList(TypedDict):
    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: TokenUsage


class Model(TypedDict):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(TypedDict):
    object: Literal["list"]
    data: list[Model]


class CachedTokens(TypedDict):
    cached_tokens: int
    cache_write_tokens: NotRequired[int]


class ReasoningTokens(TypedDict):
    reasoning_tokens: int


class ResponseUsage(TypedDict):
    input_tokens: int
    input_tokens_details: CachedTokens
    output_tokens: int
    output_tokens_details: ReasoningTokens
    total_tokens: int


@with_config(OPEN)
class Response(TypedDict):
    """With what the request said, repeated."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    error: Json | None
    incomplete_details: Json | None
    model: str
    output: list[Json]
    usage: ResponseUsage | None


@with_config(OPEN)
class ResponseEvent(TypedDict):
    """One event of a stream, named by its type."""

    type: str
    sequence_number: int
    response: NotRequired[Response]


class DataFile(TypedDict):
    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: Literal["processed"]
    status_details: None


class BatchErrors(TypedDict):
    object: Literal["list"]
    data: list[Json]


class BatchCounts(TypedDict):
    total: int
    completed: int
    failed: int


class Batch(TypedDict):
    id: str
    object: Literal["batch"]
    endpoint: str
    model: str | None
    errors: BatchErrors | None
    input_file_id: str
    completion_window: str
    status: str
    output_file_id: str | None
    error_file_id: str | None
    created_at: int | None
    expires_at: int | None
    in_progress_at: int | None
    finalizing_at: int | None
    completed_at: int | None
    failed_at: int | None
    expired_at: int | None
    cancelling_at: int | None
    cancelled_at: int | None
    request_counts: BatchCounts
    usage: ResponseUsage
    metadata: dict[str, str] | None


class Health(TypedDict):
    status: Literal["ok"]


class Readiness(TypedDict):
    status: Literal["ready", "not ready"]
    reason: NotRequired[str]
