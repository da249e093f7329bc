"""The attempts of one request: which replica is asked next, and what its failure means for it.

Used by the pipeline between the reservation and the end. Every attempt is judged once, for the breaker, the counters
and the pool's retry budget. It knows no money, and not what an answer looks like (call.py's).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from prometheus_client import Counter

from gateway.clock import Clock
from gateway.errors import NoReplicaReady, UpstreamTimeout
from gateway.exchange.call import AttemptFailed, UpstreamCalls
from gateway.exchange.closer import Closer
from gateway.exchange.keep_alive import KeepAlive
from gateway.exchange.sink import Sink
from gateway.exchange.state import Attempt, Exchange
from gateway.ids import ReplicaId
from gateway.obs.metrics import Children, Metrics
from gateway.pool.access import EngineAccess
from gateway.routing import LiveReplica, Replicas, Target
from gateway.routing.target import PoolTimes
from gateway.upstream import Deadlines, Dialect, Timeouts, dialect_of
from gateway.wire import Continuation, GenerationRequest, StreamScanner
from gateway.wire.answer import Rename, RenameAny

__all__ = ["Attempts"]

ATTEMPTS_MAX = 3
EXTERNAL = "external"
NO_ACCESS = EngineAccess()


@dataclass(frozen=True, slots=True)
class Attempts:
    replicas: Replicas
    calls: UpstreamCalls
    closer: Closer
    dialects: Mapping[str, Dialect]
    engine_key: str | None
    timeouts: Timeouts
    clock: Clock
    metrics: Metrics
    outcomes: Children[Counter]
    """Of attempts, by pool and outcome."""

    async def run(self, exchange: Exchange, sink: Sink) -> None:
        """Tries replicas until one has answered. While no data has come, another one answers; afterwards, another one
        goes on with the answer. Raises the GatewayError of the last attempt."""
        target = exchange.target
        self.replicas.budget(target.pool_id).note_request(self.clock.monotonic())
        replica = next(iter(self.replicas.order(target, exchange.prompt)), None)
        if replica is None:
            raise NoReplicaReady
        try:
            await self._run(exchange, replica, sink)
        finally:
            if exchange.keep_alive is not None:
                exchange.keep_alive.stop()

    async def _run(self, exchange: Exchange, replica: LiveReplica, sink: Sink) -> None:
        target, is_stream = exchange.target, exchange.request.stream
        timeouts = self.timeouts if target.times is None else _changed(self.timeouts, target.times)
        deadlines = Deadlines(timeouts, is_stream, partial(_pulse, exchange, sink) if is_stream else None)
        tried: set[ReplicaId] = set()
        is_fresh = False
        if is_stream and exchange.request.choices == 1 and self._could_resume(exchange, replica):
            exchange.continuation = Continuation()
        for number in range(ATTEMPTS_MAX):
            attempt = self._open(exchange, exchange.first_attempt + number, replica, is_fresh)
            tried.add(replica.id)
            failed = await self._try(exchange, attempt, deadlines, sink)
            if failed is None:
                return
            is_last = number + 1 == ATTEMPTS_MAX or deadlines.expired == "total"
            find = self._heir if exchange.has_data else self._next
            following = None if is_last else find(exchange, attempt, failed, tried)
            if following is None:
                raise failed.error
            await self._set_aside(exchange, attempt, following)
            replica, is_fresh = following, failed.verdict == "stale"
            self.metrics.upstream_retries.labels(pool=target.pool_id).inc()

    def _open(self, exchange: Exchange, number: int, replica: LiveReplica, is_fresh: bool) -> Attempt:
        target, continued = exchange.target, exchange.continued
        access = target.access or NO_ACCESS
        dialect = dialect_of(target.engine_kind, self.dialects)
        rename = (
            Rename.between(target.upstream_model, target.served_model)
            if dialect.echoes_model
            else RenameAny.to(target.served_model)
        )
        attempt = exchange.attempt = Attempt(
            number=number,
            replica=replica,
            dialect=dialect,
            # An engine that somebody else runs must never see the key of ours.
            key=self.engine_key if target.engine_kind != EXTERNAL else access.api_key,
            tls=access.tls,
            scanner=StreamScanner(not exchange.request.include_usage, rename, exchange.continuation),
            rename=rename,
            epoch=replica.epoch,
            work=self.replicas.began(replica, target, exchange.prompt),
            is_fresh=is_fresh,
            resumed_from=continued[-1].number if continued else None,
        )
        if exchange.span is not None:
            attempt.span = exchange.span.attempt(number, target.pool_id, replica.id, replica.row.url)
        return attempt

    async def _try(
        self, exchange: Exchange, attempt: Attempt, deadlines: Deadlines, sink: Sink
    ) -> AttemptFailed | None:
        """None when the attempt has answered. Judges the replica by what happened, and counts it."""
        outcome = "answered"
        failed: AttemptFailed | None = None
        try:
            await self.calls.run(exchange, attempt, deadlines, sink)
            self.closer.finish(attempt)
        except AttemptFailed as error:
            failed, outcome = error, error.verdict
            if error.is_over:
                self.closer.let_go(attempt)
        except BaseException:
            _end_span(attempt, "left")
            raise
        _end_span(attempt, outcome)
        self.outcomes[exchange.target.pool_id, outcome].inc()
        if outcome in ("answered", "client"):
            self.replicas.succeeded(attempt.replica)
        elif outcome == "failed":
            self.replicas.failed(attempt.replica)
        else:
            self.replicas.refused(attempt.replica, is_closed=outcome == "closed")
        return failed

    async def _set_aside(self, exchange: Exchange, attempt: Attempt, following: LiveReplica) -> None:
        """Nobody waits for this attempt any more. An abort names the request, so the same replica must have
        let go of it before it is asked again; another one need not wait for that."""
        attempt.scanner.detach()
        (exchange.continued if attempt.has_data else exchange.set_aside).append(attempt)
        exchange.attempt = None
        if following is attempt.replica:
            await self.closer.stop(exchange, attempt)
        else:
            await self.closer.abandon(exchange, attempt)

    def check(self, target: Target, request: GenerationRequest) -> None:
        """Raises the ClientError for what the engines there must not be asked."""
        dialect_of(target.engine_kind, self.dialects).check(request)

    def tells_prompt_bound(self, target: Target) -> bool:
        """Whether the engines there refuse a prompt above `Order.max_prompt_tokens`."""
        return dialect_of(target.engine_kind, self.dialects).has_journal

    def _could_resume(self, exchange: Exchange, replica: LiveReplica) -> bool:
        dialect = dialect_of(exchange.target.engine_kind, self.dialects)
        return dialect.can_resume and self.replicas.has_another(exchange.target, replica)

    def _heir(
        self, exchange: Exchange, attempt: Attempt, failed: AttemptFailed, tried: set[ReplicaId]
    ) -> LiveReplica | None:
        """Who goes on with an answer that has begun. A replica that died or hangs is left for nothing, however many
        streams it had; one that lives and failed may fail again, which the retry budget bounds."""
        target, answer = exchange.target, exchange.continuation
        if answer is None or not answer.is_possible or failed.verdict in ("client", "outlasted"):
            return None
        candidates = self.replicas.order(target, exchange.prompt, tried)
        if not candidates:
            return None
        is_alive = failed.verdict == "failed" and failed.is_over and attempt.has_data
        if is_alive and not self.replicas.budget(target.pool_id).take(self.clock.monotonic()):
            return None
        self.metrics.continued_streams.labels(pool=target.pool_id).inc()
        return candidates[0]

    def _next(
        self, exchange: Exchange, attempt: Attempt, failed: AttemptFailed, tried: set[ReplicaId]
    ) -> LiveReplica | None:
        """The next replica to ask, if asking is of use and the pool's retry budget allows it. One that is closed or not
        there has not worked on the request: leaving it multiplies nothing, and takes no budget."""
        target, verdict = exchange.target, failed.verdict
        if verdict == "client":
            return None
        if verdict == "stale":
            return attempt.replica
        below = attempt.replica.load if verdict == "busy" else None
        candidates = self.replicas.order(target, exchange.prompt, tried, below)
        if not candidates and verdict == "failed" and not isinstance(failed.error, UpstreamTimeout):
            candidates = self.replicas.order(target, exchange.prompt)  # the same one again, unless it hangs
        if not candidates:
            return None
        did_nothing = attempt.is_refused and verdict != "busy"
        if not did_nothing and not self.replicas.budget(target.pool_id).take(self.clock.monotonic()):
            return None
        return candidates[0]


def _end_span(attempt: Attempt, outcome: str) -> None:
    if attempt.span is None:
        return
    if attempt.figure is not None:
        usage = attempt.figure.usage
        attempt.span.used(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
    attempt.span.end(outcome, attempt.queue_ms)


def _pulse(exchange: Exchange, sink: Sink) -> None:
    """The caller has heard nothing for too long."""
    if exchange.keep_alive is None:
        exchange.keep_alive = KeepAlive(sink, exchange.ticket.headers)
    exchange.keep_alive.pulse()


def _changed(usual: Timeouts, own: PoolTimes) -> Timeouts:
    """The pool's own times, where it has them."""
    return Timeouts(
        connect_s=own.connect_s or usual.connect_s,
        first_token_s=own.first_token_s or usual.first_token_s,
        between_tokens_s=own.between_tokens_s or usual.between_tokens_s,
        total_s=own.total_s or usual.total_s,
        keep_alive_s=own.keep_alive_s or usual.keep_alive_s,
    )
