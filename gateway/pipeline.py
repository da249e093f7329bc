"""THE request path: admit → consume limits → reserve money → route → call → stream → settle.

Every generation request of every endpoint passes here and nowhere else. The edge gives a proved caller, a
parsed request and a sink; it gets an answer in the sink or one GatewayError. Whatever happens, the request is
concluded once, in a `finally` that never awaits. This file knows no HTTP, no SQL and no engine's dialect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.clock import Clock
from gateway.errors import ClientError, GatewayError, ModelNotFound, Overloaded, ServiceUnavailable
from gateway.exchange import (
    Attempt,
    AttemptFailed,
    ClientGone,
    Closer,
    Ending,
    Exchange,
    Pseudonyms,
    Sink,
    UpstreamCalls,
    unbilled_record,
)
from gateway.ids import Entropy, ReplicaId, RequestId
from gateway.ledger import Ledger
from gateway.ledger.types import Hold, Reservation
from gateway.limits import Limiter, LimitRequest, TokenEstimator, size_caps
from gateway.obs.metrics import Metrics
from gateway.routing import Catalogue, LiveReplica, Replicas, Target
from gateway.tenancy.principal import Principal
from gateway.upstream import Deadlines, Dialect, Timeouts, dialect_of
from gateway.wire import GenerationRequest, StreamScanner
from gateway.wire.answer import Rename

__all__ = ["Caller", "Parts", "Pipeline"]

ATTEMPTS_MAX = 3
REQUEST_CLASS = "interactive"
SEED_BYTES = 4


@dataclass(frozen=True, slots=True)
class Caller:
    principal: Principal
    retry_count: int = 0
    """How often the client's SDK says it has tried before."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the path is made of; `app.py` puts it together."""

    catalogue: Catalogue
    replicas: Replicas
    limiter: Limiter
    estimator: TokenEstimator
    ledger: Ledger
    calls: UpstreamCalls
    closer: Closer
    dialects: Mapping[str, Dialect]
    pseudonyms: Pseudonyms
    engine_key: str | None
    timeouts: Timeouts
    clock: Clock
    entropy: Entropy
    metrics: Metrics


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Upper bounds that the engine enforces, and an estimate."""

    prompt_max: int
    output_max: int  # per choice
    prompt_estimate: int
    estimate: int


class Pipeline:
    def __init__(self, parts: Parts) -> None:
        self._p = parts

    async def run(
        self, caller: Caller, request: GenerationRequest, request_id: RequestId, sink: Sink
    ) -> None:
        arrived = self._p.clock.monotonic()
        if not self._p.catalogue.is_loaded:
            raise ServiceUnavailable("The service is starting. Please retry in a moment.")
        target = self._p.catalogue.resolve(caller.principal.tenant_id, request.model)
        if target is None:
            raise ModelNotFound(request.model)
        exchange = await self._admit(caller, request, request_id, target, arrived)
        ending = self._broken(exchange, "internal_error")
        try:
            await self._serve(exchange, sink)
            ending = Ending("ok", self._p.clock.monotonic())
        except GatewayError as error:
            ending = self._failed(exchange, error)
            raise
        except (asyncio.CancelledError, ClientGone):
            ending = self._abandoned(exchange)
            raise
        finally:
            self._conclude(exchange, ending)

    async def _admit(
        self,
        caller: Caller,
        request: GenerationRequest,
        request_id: RequestId,
        target: Target,
        arrived: float,
    ) -> Exchange:
        p, principal = self._p, caller.principal
        sizes = self._sizes(principal, request, target)
        ticket = await p.limiter.consume(principal, request.model, LimitRequest(sizes.estimate))
        try:
            hold = await self._reserve(caller, request, request_id, target, sizes)
        except GatewayError as error:
            ticket.give_back()
            error.headers = {**ticket.headers, **error.headers}
            raise
        except BaseException:
            ticket.give_back()
            raise
        has_seed = request.fields.get("seed") is not None
        return Exchange(
            request_id=request_id,
            principal=principal,
            request=request,
            target=target,
            ticket=ticket,
            hold=hold,
            max_prompt_tokens=sizes.prompt_max,
            max_output_tokens=sizes.output_max,
            seed=None if has_seed else int.from_bytes(p.entropy(SEED_BYTES), "big"),
            arrived=arrived,
        )

    def _sizes(self, principal: Principal, request: GenerationRequest, target: Target) -> _Sizes:
        model, size = request.model, request.body_bytes
        caps = size_caps(principal, model)
        asked = request.max_output_tokens
        prompt_max = _capped(request.prompt_tokens_max, caps.max_prompt_tokens)
        output_max = _capped(target.default_max_output if asked is None else asked, caps.max_output_tokens)
        estimate = self._p.estimator.estimate
        return _Sizes(
            prompt_max,
            output_max,
            min(prompt_max, estimate(model, size, request.messages, 0)),
            estimate(model, size, request.messages, output_max * request.choices),
        )

    async def _reserve(
        self, caller: Caller, request: GenerationRequest, request_id: RequestId, target: Target, sizes: _Sizes
    ) -> Hold:
        reservation = Reservation(
            request_id=request_id,
            tenant_id=caller.principal.tenant_id,
            # A rotated key keeps its budgets: they belong to the whole chain.
            key_id=caller.principal.quota_key_id,
            served_model=target.served_model,
            route_id=target.route_id,
            pool_id=target.pool_id,
            endpoint=request.endpoint,
            prices=target.prices,
            max_prompt_tokens=sizes.prompt_max,
            max_output_tokens=sizes.output_max * request.choices,
            is_stream=request.stream,
            request_class=REQUEST_CLASS,
            user_ref=self._p.pseudonyms.user_ref(caller.principal, request.user),
            client_retry_count=caller.retry_count,
            estimated_prompt_tokens=sizes.prompt_estimate,
        )
        return await self._p.ledger.reserve(reservation)

    async def _serve(self, exchange: Exchange, sink: Sink) -> None:
        """Tries replicas until one has answered; another one only while no data has come."""
        p, target = self._p, exchange.target
        deadlines = Deadlines(p.timeouts, exchange.request.stream)
        p.replicas.budget(target.pool_id).note_request(p.clock.monotonic())
        replica = next(iter(p.replicas.order(target)), None)
        tried: set[ReplicaId] = set()
        for number in range(ATTEMPTS_MAX):
            if replica is None:
                raise Overloaded()
            attempt = self._open(exchange, number, replica)
            tried.add(replica.id)
            failed = await self._try(exchange, attempt, deadlines, sink)
            if failed is None:
                return
            is_last = number + 1 == ATTEMPTS_MAX or attempt.has_data or deadlines.expired == "total"
            replica = None if is_last else self._next(target, attempt, failed, tried)
            if replica is None:
                raise failed.error
            exchange.records.append(unbilled_record(attempt, "retry"))
            exchange.attempt = None
            p.closer.abandon(exchange, attempt)
            p.metrics.upstream_retries.labels(pool=target.pool_id).inc()

    def _open(self, exchange: Exchange, number: int, replica: LiveReplica) -> Attempt:
        target = exchange.target
        rename = Rename.between(target.upstream_model, target.served_model)
        attempt = exchange.attempt = Attempt(
            number=number,
            replica=replica,
            dialect=dialect_of(target.engine_kind, self._p.dialects),
            # An engine that somebody else runs must never see the key of ours.
            key=self._p.engine_key if target.engine_kind != "external" else None,
            scanner=StreamScanner(not exchange.request.include_usage, rename),
            rename=rename,
            epoch=replica.epoch,
        )
        self._p.replicas.began(replica)
        return attempt

    async def _try(
        self, exchange: Exchange, attempt: Attempt, deadlines: Deadlines, sink: Sink
    ) -> AttemptFailed | None:
        """None when the attempt has answered. Judges the replica by what happened, and counts it."""
        p, outcome = self._p, "answered"
        failed: AttemptFailed | None = None
        try:
            await p.calls.run(exchange, attempt, deadlines, sink)
            p.closer.finish(attempt)
        except AttemptFailed as error:
            failed, outcome = error, error.verdict
            if error.is_over:
                p.closer.let_go(attempt)
        p.metrics.upstream_attempts.labels(pool=exchange.target.pool_id, outcome=outcome).inc()
        if outcome in ("answered", "client"):
            p.replicas.succeeded(attempt.replica)
        elif outcome == "failed":
            p.replicas.failed(attempt.replica)
        else:
            p.replicas.refused(attempt.replica, is_draining=outcome == "draining")
        return failed

    def _next(
        self, target: Target, attempt: Attempt, failed: AttemptFailed, tried: set[ReplicaId]
    ) -> LiveReplica | None:
        """The next replica to ask, if asking is of use and the pool's retry budget allows it."""
        replicas = self._p.replicas
        if failed.verdict == "client":
            return None
        below = attempt.replica.load if failed.verdict == "busy" else None
        candidates = replicas.order(target, tried, below)
        if not candidates and failed.verdict == "failed" and failed.is_over:
            candidates = replicas.order(target)  # the same one again: it has let go of the request
        if not candidates or not replicas.budget(target.pool_id).take(self._p.clock.monotonic()):
            return None
        return candidates[0]

    def _failed(self, exchange: Exchange, error: GatewayError) -> Ending:
        attempt, code = exchange.attempt, error.code or error.type
        if attempt is not None and attempt.has_data:
            return Ending("partial", self._p.clock.monotonic(), code)
        is_refusal = isinstance(error, ClientError | Overloaded) and not exchange.records
        return Ending("error", self._p.clock.monotonic(), code, "our_error", release=is_refusal)

    def _broken(self, exchange: Exchange, code: str) -> Ending:
        """How it ends if an exception that nobody expected comes: our fault, nobody pays."""
        return Ending("error", exchange.arrived, code, "our_error")

    def _abandoned(self, exchange: Exchange) -> Ending:
        """The client left. What was complete by then is an ordinary answer."""
        attempt, now = exchange.attempt, self._p.clock.monotonic()
        labels = self._p.metrics.for_request(exchange.principal.tenant_id, exchange.request.model)
        self._p.metrics.client_disconnects.labels(**labels).inc()
        if attempt is None:
            return Ending("cancelled", now, release=not exchange.records)
        attempt.replica.breaker.neutral()
        return Ending("ok" if attempt.is_complete else "cancelled", now)

    def _conclude(self, exchange: Exchange, ending: Ending) -> None:
        """Exactly once per admitted request, and without awaiting: the task may be gone the next moment."""
        p, attempt = self._p, exchange.attempt
        if ending.release:
            p.ledger.release(exchange.request_id, ending.error_code or ending.status, ending.status)
            exchange.ticket.give_back()
        elif attempt is None or (attempt.is_over and (attempt.figure is not None or ending.unbilled)):
            p.closer.settle(exchange, ending)
        else:
            p.closer.take(exchange, ending)
        if ending.status == "ok" and attempt is not None and attempt.figure is not None:
            usage, request = attempt.figure.usage, exchange.request
            p.estimator.learn(request.model, request.body_bytes, usage.prompt_tokens, usage.completion_tokens)


def _capped(value: int, cap: int | None) -> int:
    return value if cap is None else min(value, cap)
