"""Ends attempts that were left open, outside the request's own task: abort, final figure, settlement.

A request that is cancelled, timed out or broken is handed over without awaiting anything; from then on it is
the closer's. It stops the engine at once, waits a bounded time for the engine's own figure (from the answer
itself, else from the journal), and settles with what it has. Draining it waits for all of that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from gateway.clock import Clock
from gateway.exchange.ending import Ending, known_tokens, settlement_of
from gateway.exchange.state import Attempt, Exchange
from gateway.ledger import Ledger
from gateway.obs.logging import get_logger
from gateway.routing import Replicas
from gateway.upstream import UpstreamClient, UpstreamError, UpstreamReply
from gateway.upstream.dialect import Figure
from gateway.wire import read_answer

__all__ = ["Closer"]

FINAL_FIGURE_S = 1.0
"""How long an aborted answer may take to end with its figure."""
JOURNAL_TRIES = 5
"""How often a journal may not have the end before it is taken to have none."""
JOURNAL_PAUSE_S = 0.2
ENGINE_AWAY_S = 60.0
"""How long an engine that died may take to come back and say what it had produced. The hold stays meanwhile: if a
guess gave it back, the journal's correction could put a hard budget over its limit."""

_log = get_logger(__name__)


class Closer:
    def __init__(self, client: UpstreamClient, ledger: Ledger, replicas: Replicas, clock: Clock) -> None:
        self._client = client
        self._ledger = ledger
        self._replicas = replicas
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._draining = asyncio.Event()

    def take(self, exchange: Exchange, ending: Ending) -> None:
        """The request's last attempt was left open: find out what it produced, then settle."""
        self._spawn(self._close(exchange, ending))

    async def abandon(self, exchange: Exchange, attempt: Attempt) -> None:
        """The attempt is being retried elsewhere: only stop it. Returns when the abort is on its way; an engine that
        hangs is not waited for."""
        if not attempt.is_over:
            self._spawn(self.stop(exchange, attempt))
            await asyncio.sleep(0)

    def finish(self, attempt: Attempt) -> None:
        """A complete answer: read the end of its body, so that the connection can be used again."""
        self.let_go(attempt)
        if attempt.reply is not None:
            attempt.reply.run_out()

    def let_go(self, attempt: Attempt) -> None:
        """The engine no longer works on it. Counts once."""
        if not attempt.is_over:
            attempt.is_over = True
            self._replicas.ended(attempt.replica, attempt.work)

    def settle(self, exchange: Exchange, ending: Ending) -> None:
        """Never awaits: the ledger's batcher and the limiter's channel do the work."""
        settlement = settlement_of(exchange, ending, self._clock.now())
        used = sum(
            record.billed_prompt_tokens + record.billed_completion_tokens for record in settlement.attempts
        )
        self._ledger.settle(settlement)
        exchange.ticket.correct(used)

    async def stop(self, exchange: Exchange, attempt: Attempt) -> None:
        """When this returns the engine has let go of the attempt, or cannot be reached. Takes two seconds at most."""
        reply = attempt.reply
        try:
            if attempt.is_over:
                return
            aborted = await attempt.dialect.abort(self._client, attempt.url, attempt.key, exchange.request_id)
            if aborted and reply is not None:
                await self._read_figure(attempt, reply)
        finally:
            if reply is not None:
                reply.close()
            self.let_go(attempt)

    async def drain(self) -> None:
        """Everything handed over so far is settled when this returns. Engines that are away are not waited for."""
        self._draining.set()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close(self, exchange: Exchange, ending: Ending) -> None:
        attempt = exchange.attempt
        try:
            if attempt is not None:
                await self.stop(exchange, attempt)
            if exchange.continued:
                exchange.ticket.correct(known_tokens(exchange))
                await asyncio.gather(*(self._read_journal(exchange, one) for one in exchange.chain))
            elif attempt is not None and attempt.figure is None and attempt.dialect.has_journal:
                exchange.ticket.correct(attempt.scanner.events)  # its slot is free, whoever has the figure
                await self._read_journal(exchange, attempt)
        finally:
            self.settle(exchange, ending)

    async def _read_figure(self, attempt: Attempt, reply: UpstreamReply) -> None:
        """Reads on what the caller no longer does; the aborted answer ends with its usage."""
        try:
            async with asyncio.timeout(FINAL_FIGURE_S):
                if not reply.is_stream:
                    answer = read_answer(await reply.read_whole(), None)
                    attempt.saw(answer.usage if answer is not None else None)
                    return
                while data := await reply.read_some():
                    attempt.scanner.feed(data)
        except (UpstreamError, TimeoutError) as error:
            _log.warning("an aborted answer did not end", replica=attempt.replica.id, error=repr(error))
        attempt.saw(attempt.scanner.usage)

    async def _read_journal(self, exchange: Exchange, attempt: Attempt) -> None:
        """A stream that was continued tells the usage of the whole answer: what this attempt did only its journal."""
        attempt.figure = await self._journalled(exchange, attempt)

    async def _journalled(self, exchange: Exchange, attempt: Attempt) -> Figure | None:
        """Its final figure; None if the journal has none, or cannot be read for too long."""
        answers, give_up_at = 0, self._clock.monotonic() + ENGINE_AWAY_S
        while answers < JOURNAL_TRIES:
            try:
                figure = await attempt.dialect.journalled(
                    self._client, attempt.url, attempt.key, exchange.request_id, attempt.number
                )
            except UpstreamError:
                if self._draining.is_set() or self._clock.monotonic() > give_up_at:
                    return None
            else:
                if figure is not None:
                    return figure
                answers += 1
            await asyncio.sleep(JOURNAL_PAUSE_S)
        return None
