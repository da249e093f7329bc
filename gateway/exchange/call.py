"""One attempt: the call to one replica, and its answer passed on as it comes.

Returns when the answer is complete; raises AttemptFailed when there is none, or none to its end. Whether to
try elsewhere is the pipeline's decision; what an open attempt produced is the closer's to find out.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.clock import Clock
from gateway.errors import EngineFailed, GatewayError, NoReplicaReady, ReaderTooSlow, UpstreamTimeout
from gateway.exchange.identity import Pseudonyms
from gateway.exchange.relay import Relay
from gateway.exchange.sink import ClientGone, Sink
from gateway.exchange.state import Attempt, Exchange
from gateway.obs.failpoints import failpoint
from gateway.routing import Replicas
from gateway.upstream import ConnectFailed, Deadlines, Order, StaleConnection, UpstreamClient, UpstreamError
from gateway.upstream.errors import Verdict, judge
from gateway.wire import read_answer, read_error
from gateway.wire.answer import EngineError
from gateway.wire.load import read_load, read_wait
from gateway.wire.stream import EventTooLarge

__all__ = ["AttemptFailed", "UpstreamCalls"]

PASSED_HEADERS = ("content-type", "x-tollway-ignored")
READER_TOO_SLOW = "reader_too_slow"
"""What our own engine calls it."""


class AttemptFailed(Exception):
    """Whose fault, and what the caller gets if nobody tries again. `is_over`: the engine has let go of it."""

    def __init__(self, verdict: Verdict, error: GatewayError, *, is_over: bool) -> None:
        super().__init__(verdict)
        self.verdict = verdict
        self.error = error
        self.is_over = is_over


class UpstreamCalls:
    def __init__(
        self, client: UpstreamClient, replicas: Replicas, pseudonyms: Pseudonyms, clock: Clock
    ) -> None:
        self._client = client
        self._replicas = replicas
        self._pseudonyms = pseudonyms
        self._clock = clock

    async def run(self, exchange: Exchange, attempt: Attempt, deadlines: Deadlines, sink: Sink) -> None:
        try:
            async with deadlines:
                await self._call(exchange, attempt, deadlines, sink)
        except StaleConnection as error:
            raise AttemptFailed("stale", EngineFailed(), is_over=True) from error
        except UpstreamError as error:
            over = isinstance(error, ConnectFailed)
            if over:
                attempt.did_nothing()
            # Nobody is there. If nobody else is either, it is as if none had been ready.
            is_away = over and not exchange.has_data
            failure = NoReplicaReady() if is_away else EngineFailed()
            raise AttemptFailed("failed", failure, is_over=over) from error
        except EventTooLarge as error:
            raise AttemptFailed("failed", EngineFailed(), is_over=False) from error
        except TimeoutError as error:
            if deadlines.expired == "write":
                raise ClientGone from error
            # A stream that flowed to the end of its time says nothing against the replica.
            flowed = deadlines.expired == "total" and attempt.has_data
            raise AttemptFailed(
                "outlasted" if flowed else "failed", UpstreamTimeout(), is_over=False
            ) from error

    async def _call(self, exchange: Exchange, attempt: Attempt, deadlines: Deadlines, sink: Sink) -> None:
        order = self._order(exchange, attempt)
        call = attempt.dialect.prepare(attempt.url, attempt.key, exchange.request, order)
        if attempt.resumed_from is not None:
            assert exchange.continuation is not None
            call = attempt.dialect.resumed(attempt.url, call, exchange.continuation, attempt.resumed_from)
        span = attempt.span
        reply = await self._client.post(
            call.url,
            call.headers if span is None else {**call.headers, "traceparent": span.traceparent},
            call.body,
            fresh=attempt.is_fresh,
            connect_s=deadlines.timeouts.connect_s,
            tls=attempt.tls,
        )
        attempt.reply = reply
        attempt.queue_ms = read_wait(reply.headers)
        load = read_load(reply.headers)
        if load is not None:
            attempt.epoch = load.epoch
            self._replicas.observe(attempt.replica, load)
        if reply.status != 200:
            target, said = exchange.target, read_error(await reply.read_whole())
            refusal = judge(reply.status, reply.headers, said, target.upstream_model, target.served_model)
            if refusal.verdict != "failed":
                attempt.did_nothing()
            attempt.saw(said.usage)
            raise AttemptFailed(refusal.verdict, refusal.error, is_over=True)
        headers = {name: reply.headers[name] for name in PASSED_HEADERS if reply.headers.get(name)}
        if call.ignored:
            headers["x-tollway-ignored"] = ", ".join(call.ignored)
        headers.update(exchange.ticket.headers)
        answer = self._pass_stream if exchange.request.stream else self._pass_whole
        await answer(exchange, attempt, deadlines, sink, headers)

    async def _pass_whole(
        self,
        exchange: Exchange,
        attempt: Attempt,
        deadlines: Deadlines,
        sink: Sink,
        headers: Mapping[str, str],
    ) -> None:
        assert attempt.reply is not None
        answer = read_answer(await attempt.reply.read_whole(), attempt.rename)
        if answer is None:
            raise AttemptFailed("failed", EngineFailed(), is_over=True)
        attempt.saw(answer.usage)
        attempt.is_complete = True
        exchange.first_data_at = self._clock.monotonic()
        deadlines.writing = True
        await sink.whole(headers, answer.body)

    async def _pass_stream(
        self,
        exchange: Exchange,
        attempt: Attempt,
        deadlines: Deadlines,
        sink: Sink,
        headers: Mapping[str, str],
    ) -> None:
        reply, scanner = attempt.reply, attempt.scanner
        assert reply is not None
        relay = Relay(scanner, sink, deadlines)
        while await reply.pass_on(relay.take):
            if scanner.events and not relay.has_begun:
                relay.has_begun = True
                await self._begin_data(exchange, attempt)
            if scanner.done:
                self._complete(attempt)
            if relay.unsent:
                # From here on silence is the reader's, until the next bytes are asked for.
                deadlines.writing = True
                await sink.stream(headers, relay.unsent, last=scanner.done)
                deadlines.writing = False
                failpoint("stream.sent")
            if scanner.done:
                return
            if scanner.error is not None:
                attempt.saw(scanner.error.usage)
                raise _broken(scanner.error)
        await self._end_of_stream(attempt, sink, headers)

    async def _end_of_stream(self, attempt: Attempt, sink: Sink, headers: Mapping[str, str]) -> None:
        """The engine closed the stream without an empty line after its last event, or without `[DONE]`."""
        scanner = attempt.scanner
        passed = scanner.finish()
        if scanner.done:
            self._complete(attempt)
            await sink.stream(headers, passed, last=True)
            return
        if scanner.error is None:
            attempt.saw(None)
            raise AttemptFailed("failed", EngineFailed(), is_over=False)
        attempt.saw(scanner.error.usage)
        raise _broken(scanner.error)

    async def _begin_data(self, exchange: Exchange, attempt: Attempt) -> None:
        if exchange.keep_alive is not None:
            await exchange.keep_alive.rest()
        self._replicas.first_data(attempt.replica, attempt.work)
        if exchange.first_data_at is None:
            exchange.first_data_at = self._clock.monotonic()

    def _complete(self, attempt: Attempt) -> None:
        attempt.saw(attempt.scanner.usage)
        attempt.is_complete = True

    def _order(self, exchange: Exchange, attempt: Attempt) -> Order:
        principal = exchange.principal
        return Order(
            request_id=exchange.request_id,
            attempt=attempt.number,
            upstream_model=exchange.target.upstream_model,
            fairness_id=self._pseudonyms.fairness_id(principal),
            fairness_weight=principal.fairness_weight,
            request_class=exchange.hold.reservation.request_class,
            cache_salt=self._pseudonyms.cache_salt(principal),
            max_prompt_tokens=exchange.max_prompt_tokens,
            max_output_tokens=exchange.max_output_tokens,
            seed=exchange.seed,
            promise=exchange.promise,
            wants_token_ids=exchange.continuation is not None,
        )


def _broken(said: EngineError) -> AttemptFailed:
    """An error event behind the first data. We read as slowly as our caller does."""
    if said.code == READER_TOO_SLOW:
        return AttemptFailed("client", ReaderTooSlow(), is_over=True)
    return AttemptFailed("failed", EngineFailed(), is_over=True)
