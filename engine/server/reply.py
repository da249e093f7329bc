"""One HTTP request on its way through the engine: submit, follow, account, answer.

`run` is the whole path: what `generation` brings is written as one answer or as events, one write per step. The
journal's `end` is written before the caller can see the end. Knows neither the endpoints' shapes nor their parameters.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from engine.server.admission import Job
from engine.server.answer_size import MAX_ANSWER_BYTES
from engine.server.continuation import TokenIdLines, last_block
from engine.server.errors import ApiError
from engine.server.exchange import Exchange, watch_in_background
from engine.server.gathered import Gathered
from engine.server.generation import Generation
from engine.server.responses import DONE, Shape, Usage, error_event
from engine.server.services import Services

_LOGPROBS_WORK = 32
"""Writing the log-probabilities of a position takes as long as parsing so many characters, or longer."""


@dataclass(frozen=True, slots=True)
class AnswerStyle:
    """How the caller wants the answer."""

    stream: bool
    include_usage: bool = False
    continuous_usage: bool = False


async def run(exchange: Exchange, services: Services, job: Job, shape: Shape, style: AnswerStyle) -> None:
    """Answer one request. Raises `ApiError` only if the core never got it."""
    generation = Generation(services, job)
    services.in_flight.add(generation)
    watcher: asyncio.Task[None] | None = None
    try:
        generation.start()
        watcher = watch_in_background(exchange, generation.caller_gone)
        if style.stream:
            await _stream(exchange, services, generation, shape, style)
        else:
            await _answer(exchange, services, generation, shape)
    finally:
        if watcher is not None:
            watcher.cancel()
        services.in_flight.remove(generation)
        generation.abandon()


async def _stream(
    exchange: Exchange, services: Services, generation: Generation, shape: Shape, style: AnswerStyle
) -> None:
    generation.bound_backlog()
    usage = generation.usage if style.continuous_usage else None
    lines = generation.token_id_lines(exchange.path)
    opened = generation.opened
    parts = _replayed(generation, shape, usage, lines)
    done = False
    while not done:
        deltas, done = await generation.next()
        if deltas and lines is not None:
            parts.append(lines.begin(generation.usage))
        for delta in deltas:
            if delta.index not in opened:
                opened.add(delta.index)
                begin = partial(shape.opening, delta.index, delta.prompt_logprobs, usage)
                size = len(delta.prompt_logprobs) * _LOGPROBS_WORK
                parts.append(await services.beside_loop(size, begin))
            events = shape.chunk(delta, usage)
            parts.append(events if lines is None else lines.mark(delta, events))
        if done:
            generation.journal("end")
            if generation.error is not None and not exchange.started:
                return await _fail(exchange, generation, generation.error)
            parts.append(_closing(generation, shape, style))
        if parts and not exchange.disconnected:
            if not exchange.started:
                _tell_wait(exchange, generation)
                await exchange.start_events()
            await exchange.send_events(b"".join(parts), last=done)
        parts = []


def _replayed(
    generation: Generation, shape: Shape, usage: Usage | None, lines: TokenIdLines | None
) -> list[bytes]:
    """Brings the shape to where the stream was cut. What the caller has not seen of that: ends whose block is lost."""
    unseen = []
    for index in sorted(generation.opened):
        shape.opening(index)
    for delta in generation.replayed:
        events = shape.chunk(delta, usage)
        if delta.finish_reason is not None and delta.index not in generation.seen_ends:
            end = last_block(events)
            unseen.append(end if lines is None else lines.mark_end(delta.index, end))
    return unseen


def _closing(generation: Generation, shape: Shape, style: AnswerStyle) -> bytes:
    if generation.error is not None:
        return error_event(generation.error.body(generation.usage_for_error()))
    return (shape.usage_chunk(generation.usage) if style.include_usage else b"") + DONE


async def _answer(exchange: Exchange, services: Services, generation: Generation, shape: Shape) -> None:
    gathered = Gathered()
    done = False
    while not done:
        news, done = await generation.next()
        gathered.add(news)
        if gathered.num_bytes > MAX_ANSWER_BYTES:
            generation.end_for_length()
    generation.journal("end")
    if generation.error is not None:
        return await _fail(exchange, generation, generation.error)
    if exchange.disconnected:
        return
    whole = gathered.whole()
    size = sum(len(delta.logprobs) + len(delta.prompt_logprobs) for delta in whole) * _LOGPROBS_WORK
    write = partial(shape.whole, whole, generation.usage)
    _tell_wait(exchange, generation)
    await exchange.reply(200, await services.beside_loop(size, write))


def _tell_wait(exchange: Exchange, generation: Generation) -> None:
    if generation.queue_ms is not None:
        exchange.reply_headers["x-engine-queue-ms"] = f"{generation.queue_ms:.0f}"


async def _fail(exchange: Exchange, generation: Generation, error: ApiError) -> None:
    if not exchange.disconnected:
        await exchange.reply(error.status, error.body(generation.usage_for_error()), headers=error.headers)
