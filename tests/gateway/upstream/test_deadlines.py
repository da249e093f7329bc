"""Deadlines: which one ended an exchange is known; progress postpones; the total does not move."""

from __future__ import annotations

import asyncio

import pytest

from gateway.upstream.deadlines import Deadlines, Timeouts

SHORT_S, LONG_S = 0.05, 30.0


async def expire(deadlines: Deadlines, steps: int = 0, writing: bool = False) -> None:
    with pytest.raises(TimeoutError):
        await wait_in(deadlines, steps, writing)


async def wait_in(deadlines: Deadlines, steps: int, writing: bool) -> None:
    async with deadlines:
        for _ in range(steps):
            await asyncio.sleep(SHORT_S / 2)
            deadlines.progress()
        deadlines.writing = writing
        await asyncio.Event().wait()


async def test_first_token() -> None:
    deadlines = Deadlines(Timeouts(LONG_S, SHORT_S, LONG_S, LONG_S), streaming=True)
    await expire(deadlines)
    assert deadlines.expired == "first_token"


async def test_between_tokens_counts_from_the_last_one() -> None:
    deadlines = Deadlines(Timeouts(LONG_S, LONG_S, SHORT_S, LONG_S), streaming=True)
    await expire(deadlines, steps=6)
    assert deadlines.expired == "between_tokens"


async def test_a_slow_reader_is_told_from_a_slow_engine() -> None:
    deadlines = Deadlines(Timeouts(LONG_S, LONG_S, SHORT_S, LONG_S), streaming=True)
    await expire(deadlines, steps=1, writing=True)
    assert deadlines.expired == "write"


async def test_total_spans_attempts() -> None:
    deadlines = Deadlines(Timeouts(LONG_S, LONG_S, LONG_S, SHORT_S), streaming=True)
    async with deadlines:
        await asyncio.sleep(0)
    await expire(deadlines)
    assert deadlines.expired == "total"


async def test_a_slow_reader_is_told_from_a_long_answer() -> None:
    deadlines = Deadlines(Timeouts(LONG_S, LONG_S, LONG_S, SHORT_S), streaming=True)
    await expire(deadlines, writing=True)
    assert deadlines.expired == "write"


async def test_a_whole_answer_has_no_first_token() -> None:
    deadlines = Deadlines(Timeouts(LONG_S, SHORT_S / 10, LONG_S, SHORT_S), streaming=False)
    await expire(deadlines)
    assert deadlines.expired == "total"


async def test_nothing_expires_after_the_end() -> None:
    deadlines = Deadlines(Timeouts(LONG_S, SHORT_S, SHORT_S, SHORT_S), streaming=True)
    async with deadlines:
        deadlines.progress()
    await asyncio.sleep(SHORT_S * 2)
    assert deadlines.expired is None


async def test_silence_is_told_until_there_is_progress() -> None:
    pulses: list[int] = []
    timeouts = Timeouts(LONG_S, LONG_S, LONG_S, LONG_S, keep_alive_s=SHORT_S / 5)
    deadlines = Deadlines(timeouts, streaming=True, on_silence=lambda: pulses.append(1))
    async with deadlines:
        while len(pulses) < 3:  # noqa: ASYNC110  # a timer has no event
            await asyncio.sleep(SHORT_S / 10)
        deadlines.progress()
        told = len(pulses)
        await asyncio.sleep(SHORT_S)
    assert len(pulses) == told
    assert deadlines.expired is None


async def test_silence_does_not_postpone_the_deadline() -> None:
    timeouts = Timeouts(LONG_S, SHORT_S, LONG_S, LONG_S, keep_alive_s=SHORT_S / 5)
    deadlines = Deadlines(timeouts, streaming=True, on_silence=lambda: None)
    await expire(deadlines)
    assert deadlines.expired == "first_token"
