"""THE request path: admit → consume limits → reserve money → route → call → stream → settle.

Every generation request of every endpoint passes here and nowhere else. The edge gives a proved caller, a
parsed request and a sink; it gets an answer in the sink or one GatewayError. Whatever happens, the request is
concluded once, in a `finally` that never awaits. This file knows no HTTP, no SQL and no engine's dialect.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.clock import Clock
from gateway.errors import (
    ClientError,
    GatewayError,
    ModelNotFound,
    Overloaded,
    ServiceUnavailable,
)
from gateway.exchange import (
    Attempts,
    Caller,
    ClientGone,
    Closer,
    Ending,
    Exchange,
    Pseudonyms,
    Sink,
    Sizes,
    sizes_of,
)
from gateway.ids import Entropy, RequestId
from gateway.ledger import Ledger
from gateway.ledger.notebook import Notebook
from gateway.ledger.types import Hold, Reservation
from gateway.limits import Limiter, LimitRequest, TokenEstimator
from gateway.obs.failpoints import failpoint
from gateway.obs.metrics import Metrics
from gateway.obs.tracing import Asked, reserving
from gateway.routing import Catalogue, Prompt, Replicas, Target
from gateway.routing.target import BATCH_CLASS
from gateway.slo.promises import Promises
from gateway.tenancy import Principal
from gateway.wire import GenerationRequest

if TYPE_CHECKING:
    from gateway.obs.traces import RequestSpan, Traces

__all__ = ["Caller", "Parts", "Pipeline"]

SEED_BYTES = 4


@dataclass(frozen=True, slots=True)
class Parts:
    """What the path is made of; `app.py` puts it together."""

    catalogue: Catalogue
    promises: Promises
    replicas: Replicas
    limiter: Limiter
    estimator: TokenEstimator
    ledger: Ledger
    notebook: Notebook
    attempts: Attempts
    closer: Closer
    pseudonyms: Pseudonyms
    clock: Clock
    entropy: Entropy
    metrics: Metrics
    traces: Traces | None = None


class Pipeline:
    def __init__(self, parts: Parts) -> None:
        self._p = parts

    async def run(
        self, caller: Caller, request: GenerationRequest, request_id: RequestId, sink: Sink
    ) -> None:
        traces = self._p.traces
        if traces is None:
            await self._run(caller, request, request_id, sink, None)
            return
        with traces.request(caller.traceparent, _asked(caller, request, request_id)) as span:
            await self._run(caller, request, request_id, sink, span)

    async def _run(
        self,
        caller: Caller,
        request: GenerationRequest,
        request_id: RequestId,
        sink: Sink,
        span: RequestSpan | None,
    ) -> None:
        exchange = await self._enter(caller, request, request_id, span)
        # How it ends if an exception that nobody expected comes: our fault, nobody pays.
        ending = Ending("error", exchange.arrived, "internal_error", "our_error")
        try:
            await self._p.attempts.run(exchange, sink)
            failpoint("answer.last_byte")
            ending = Ending("ok", self._p.clock.monotonic())
        except GatewayError as error:
            error.is_settled = True
            ending = self._failed(exchange, error)
            raise
        except (asyncio.CancelledError, ClientGone):
            ending = self._abandoned(exchange)
            raise
        finally:
            self._conclude(exchange, ending)

    async def _enter(
        self, caller: Caller, request: GenerationRequest, request_id: RequestId, span: RequestSpan | None
    ) -> Exchange:
        """Admitted, or refused and noted: there will be no usage event to count it by."""
        p, principal, target = self._p, caller.principal, None
        try:
            if not p.catalogue.is_loaded:
                raise ServiceUnavailable("The service is starting. Please retry in a moment.")
            target = p.catalogue.resolve(principal.tenant_id, request.model)
            if target is None:
                raise ModelNotFound(request.model)
            p.attempts.check(target, request)
            return await self._admit(caller, request, request_id, target, span)
        except GatewayError as error:
            model, why = target.served_model if target is not None else "", error.code or error.type
            self._note(principal, caller.request_class, model, why)
            raise

    async def _admit(
        self,
        caller: Caller,
        request: GenerationRequest,
        request_id: RequestId,
        target: Target,
        span: RequestSpan | None,
    ) -> Exchange:
        p, principal, arrived = self._p, caller.principal, self._p.clock.monotonic()
        sizes = sizes_of(
            principal, request, target, p.estimator, is_told=p.attempts.tells_prompt_bound(target)
        )
        ticket = await p.limiter.consume(
            principal, request.model, LimitRequest(sizes.estimate, caller.request_class)
        )
        try:
            with reserving(span):
                hold = await self._reserve(caller, request, request_id, target, sizes)
        except GatewayError as error:
            ticket.give_back()
            error.headers = {**ticket.headers, **error.headers}
            raise
        except BaseException:
            ticket.give_back()
            raise
        needs_seed = request.is_sampled and request.fields.get("seed") is None
        return Exchange(
            request_id=request_id,
            principal=principal,
            request=request,
            target=target,
            ticket=ticket,
            hold=hold,
            max_prompt_tokens=sizes.prompt_max,
            max_output_tokens=sizes.output_max,
            seed=int.from_bytes(p.entropy(SEED_BYTES), "big") if needs_seed else None,
            prompt=Prompt(request, p.pseudonyms.cache_salt(principal)),
            arrived=arrived,
            first_attempt=caller.first_attempt,
            span=span,
            promise=p.promises.of(principal.tenant_id, target.served_model, caller.request_class),
        )

    async def _reserve(
        self, caller: Caller, request: GenerationRequest, request_id: RequestId, target: Target, sizes: Sizes
    ) -> Hold:
        user_ref = self._p.pseudonyms.user_ref(caller.principal, request.user)
        self._p.notebook.met_user(caller.principal.tenant_id, user_ref, request.user)
        reservation = Reservation(
            request_id=request_id,
            tenant_id=caller.principal.tenant_id,
            # A rotated key keeps its budgets: they belong to the whole chain.
            key_id=caller.principal.quota_key_id,
            served_model=target.served_model,
            route_id=target.route_id,
            pool_id=target.pool_id,
            endpoint=request.endpoint,
            prices=target.prices_for(caller.request_class),
            max_prompt_tokens=sizes.prompt_max,
            max_output_tokens=sizes.output_max * request.choices,
            is_stream=request.stream,
            request_class=caller.request_class,
            user_ref=user_ref,
            client_retry_count=caller.retry_count,
            estimated_prompt_tokens=sizes.prompt_estimate,
        )
        return await self._p.ledger.reserve(reservation)

    def _failed(self, exchange: Exchange, error: GatewayError) -> Ending:
        code = error.code or error.type
        if exchange.has_data:
            return Ending("partial", self._p.clock.monotonic(), code)
        is_refusal = isinstance(error, ClientError | Overloaded) and not exchange.set_aside
        if is_refusal:
            reserved = exchange.hold.reservation
            self._note(exchange.principal, reserved.request_class, reserved.served_model, code)
        return Ending("error", self._p.clock.monotonic(), code, "our_error", release=is_refusal)

    def _note(self, principal: Principal, request_class: str, model: str, why: str) -> None:
        """Refused: there is no usage event to count it by. A line of a batch waits and is asked again."""
        if request_class != BATCH_CLASS:
            self._p.notebook.refused(principal.tenant_id, principal.quota_key_id, model, why)

    def _abandoned(self, exchange: Exchange) -> Ending:
        """The client left. What was complete by then is an ordinary answer."""
        attempt, now = exchange.attempt, self._p.clock.monotonic()
        labels = self._p.metrics.for_request(exchange.principal.tenant_id, exchange.request.model)
        self._p.metrics.client_disconnects.labels(**labels).inc()
        if attempt is None:
            return Ending("cancelled", now, release=not (exchange.set_aside or exchange.continued))
        attempt.replica.breaker.neutral()
        return Ending("ok" if attempt.is_complete else "cancelled", now)

    def _conclude(self, exchange: Exchange, ending: Ending) -> None:
        """Exactly once per admitted request, and without awaiting: the task may be gone the next moment."""
        p, attempt = self._p, exchange.attempt
        if ending.release:
            p.ledger.release(exchange.request_id, ending.error_code or ending.status, ending.status)
            exchange.ticket.give_back()
        elif exchange.continued:
            p.closer.take(exchange, ending)
        elif attempt is None or (attempt.is_over and (attempt.figure is not None or ending.unbilled)):
            p.closer.settle(exchange, ending)
        else:
            p.closer.take(exchange, ending)
        if exchange.span is not None:
            _tell(exchange, exchange.span)
        is_plain = ending.status == "ok" and not exchange.continued
        if is_plain and attempt is not None and attempt.figure is not None:
            usage, request = attempt.figure.usage, exchange.request
            p.estimator.learn(request.model, request.body_bytes, usage.prompt_tokens, usage.completion_tokens)
            p.replicas.reported(attempt.replica, attempt.work, usage.prompt_tokens, usage.cached_tokens)


def _asked(caller: Caller, request: GenerationRequest, request_id: RequestId) -> Asked:
    return Asked(
        request_id,
        caller.principal.tenant_id,
        request.endpoint,
        request.model,
        request.stream,
        caller.request_class,
        request.fields,
    )


def _tell(exchange: Exchange, span: RequestSpan) -> None:
    """What the caller got, as far as it is known now: the ledger may learn more."""
    if exchange.first_data_at is not None:
        span.first_data(exchange.first_data_at - exchange.arrived)
    if exchange.attempt is not None and exchange.attempt.figure is not None:
        usage = exchange.attempt.figure.usage
        span.used(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
