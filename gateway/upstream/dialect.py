"""What differs between kinds of engine, as one protocol.

A dialect turns a client's request into an engine's, and knows how to stop one and how to learn what it
produced. It does not call the engine for the answer itself (client.py) and decides no retry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gateway.upstream.client import UpstreamClient
from gateway.wire.continuation import Continuation
from gateway.wire.request import GenerationRequest
from gateway.wire.usage import Usage

__all__ = ["NO_PROMISE", "PATHS", "Call", "Dialect", "Figure", "Order", "Promise", "dialect_of"]

PATHS: Mapping[str, str] = {
    "chat.completions": "/v1/chat/completions",
    "completions": "/v1/completions",
    "embeddings": "/v1/embeddings",
    "responses": "/v1/chat/completions",
}


@dataclass(frozen=True, slots=True)
class Promise:
    """When a request's first token is due after its arrival, and each one after the one before. None: whenever."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None


NO_PROMISE = Promise()


@dataclass(frozen=True, slots=True)
class Order:
    """Everything the gateway decided about one attempt."""

    request_id: str
    attempt: int
    upstream_model: str
    fairness_id: str
    fairness_weight: int
    request_class: str
    cache_salt: str
    max_prompt_tokens: int
    max_output_tokens: int  # per choice
    seed: int | None  # None: the client set one
    promise: Promise = NO_PROMISE
    wants_token_ids: bool = False
    """Beside the stream, so that another replica can go on with it."""


@dataclass(frozen=True, slots=True)
class Call:
    url: str
    headers: Mapping[str, str]
    body: bytes
    ignored: tuple[str, ...] = ()
    """Fields of the caller's that the engine is not told, for the caller to know."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What an attempt really produced, from the engine itself."""

    usage: Usage
    overrun_tokens: int = 0


class Dialect(Protocol):
    @property
    def has_journal(self) -> bool:
        """The engine can say afterwards what it produced, and refuses a prompt above the bound it is told."""
        ...

    @property
    def can_resume(self) -> bool:
        """The engine can go on with a stream that another one of its kind began."""
        ...

    @property
    def echoes_model(self) -> bool:
        """Its answers name the model as it was asked for, and in no other way."""
        ...

    def check(self, request: GenerationRequest) -> None:
        """Raises the ClientError for what this kind of engine must not be asked."""
        ...

    def prepare(self, base_url: str, key: str | None, request: GenerationRequest, order: Order) -> Call: ...

    def resumed(self, base_url: str, call: Call, answer: Continuation, resumed_from: int) -> Call:
        """The same call, to go on with an answer where attempt `resumed_from` left it. Only if `can_resume`."""
        ...

    async def abort(self, client: UpstreamClient, base_url: str, key: str | None, request_id: str) -> bool:
        """True when the engine will end the attempt's own answer at once, with its final figure."""
        ...

    async def journalled(
        self, client: UpstreamClient, base_url: str, key: str | None, request_id: str, attempt: int
    ) -> Figure | None:
        """The final figure from the engine's own record, if it has one by now. Raises UpstreamError if the engine
        cannot be asked."""
        ...


def dialect_of(kind: str, dialects: Mapping[str, Dialect]) -> Dialect:
    """The dialect for an engine kind of the pool table; every kind but our own speaks plain OpenAI."""
    return dialects.get(kind, dialects["openai"])
