"""The state of one request and of its attempts. Mutable, owned by one task at a time: pipeline, then closer."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.exchange.keep_alive import KeepAlive
from gateway.ids import RequestId
from gateway.ledger.types import Hold
from gateway.limits import Ticket
from gateway.routing import LiveReplica, Prompt, Target, Work
from gateway.routing.target import RequestClass
from gateway.tenancy.principal import Principal
from gateway.upstream import Dialect, UpstreamReply
from gateway.upstream.dialect import NO_PROMISE, Figure, Promise
from gateway.wire import Continuation, GenerationRequest, StreamScanner, Usage
from gateway.wire.answer import Rename, RenameAny

if TYPE_CHECKING:
    from gateway.obs.traces import AttemptSpan, RequestSpan

__all__ = ["Attempt", "Caller", "Exchange"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and in what capacity."""

    principal: Principal
    retry_count: int = 0
    """How often the client's SDK says it has tried before."""
    request_class: RequestClass = "interactive"
    first_attempt: int = 0
    """The number of the first attempt: above those of an earlier run of the same request, which engines remember."""
    traceparent: str | None = None
    """The trace that it says the request is part of."""


@dataclass(slots=True, eq=False)
class Attempt:
    """One try at one replica. `reply` is there once the engine has sent headers."""

    number: int
    replica: LiveReplica
    dialect: Dialect
    key: str | None = field(repr=False)
    scanner: StreamScanner
    rename: Rename | RenameAny | None
    epoch: str | None
    work: Work
    """What routing counts it as."""
    is_fresh: bool = False
    """On a connection of its own: the kept one of the attempt before was dead."""
    reply: UpstreamReply | None = None
    figure: Figure | None = None
    """What the engine itself said it produced."""
    queue_ms: int | None = None
    """How long it waited for its turn, as the engine says."""
    is_over: bool = False
    """The engine is done with it: nothing is left to abort, and it no longer counts as in flight."""
    is_complete: bool = False
    """The whole answer has come from the engine."""
    tls: ssl.SSLContext | None = None
    """Whom to trust there, in place of the system's authorities."""
    resumed_from: int | None = None
    """The attempt whose answer this one goes on with."""
    is_refused: bool = False
    """It never worked: no engine has a record of it."""
    span: AttemptSpan | None = None

    @property
    def url(self) -> str:
        return self.replica.row.url

    @property
    def has_data(self) -> bool:
        """Something of the answer reached the client, so nobody else can give it any more."""
        return self.scanner.events > 0 or self.is_complete

    def did_nothing(self) -> None:
        """The engine refused it, or never met it."""
        self.is_refused = True
        self.figure = Figure(Usage(0, 0))

    def saw(self, usage: Usage | None) -> None:
        if usage is not None:
            self.figure = Figure(usage)


@dataclass(slots=True, eq=False)
class Exchange:
    """Everything between admission and settlement."""

    request_id: RequestId
    principal: Principal
    request: GenerationRequest
    target: Target
    ticket: Ticket
    hold: Hold
    max_prompt_tokens: int
    max_output_tokens: int  # per choice
    seed: int | None  # None: the client set one, or nothing is drawn
    prompt: Prompt
    arrived: float
    first_attempt: int = 0
    promise: Promise = NO_PROMISE
    """What the engines are told of the objectives."""
    set_aside: list[Attempt] = field(default_factory=list)
    """Attempts that were tried again elsewhere; nobody pays for them."""
    attempt: Attempt | None = None
    continuation: Continuation | None = None
    """What is needed to go on elsewhere, if somebody could."""
    continued: list[Attempt] = field(default_factory=list)
    """Attempts that died over the answer, and others went on with; what they gave is paid for."""
    first_data_at: float | None = None
    span: RequestSpan | None = None
    """None unless requests are traced."""
    keep_alive: KeepAlive | None = None
    """Once the caller of a stream has heard nothing for too long."""

    @property
    def has_data(self) -> bool:
        """The caller has some of the answer."""
        return bool(self.continued) or (self.attempt is not None and self.attempt.has_data)

    @property
    def chain(self) -> list[Attempt]:
        """All that worked on an answer that was continued, in their order."""
        last = self.attempt
        return [*self.continued, *([last] if last is not None and not last.is_refused else [])]
