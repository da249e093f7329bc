"""Sends conversations to one server, each when it is due, and notes what became of every request.

Place: `sweep` calls it once per server and rate. Measures with the engine's own client (`engine.bench.client`); knows no
server's internals. One process: it reads about ten thousand chunks a second.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from engine.bench.client import Target, open_session, send
from engine.bench.stats import Outcome
from workbench.bench.datasets import Conversation, Turn

_TEXT = re.compile(rb'"(?:content|reasoning_content|reasoning)": ?"(?!")|"tool_calls": ?\[')
"""A chat's chunk with something in it: the first often carries a role and the last an end alone."""


@dataclass(frozen=True, slots=True)
class Due:
    """A conversation and when it begins, seconds after the start."""

    conversation: Conversation
    at_s: float


async def run_load(
    target: Target,
    load: Sequence[Due],
    concurrency: int | None = None,
    on_done: Callable[[int], None] = lambda requests: None,
) -> list[Outcome]:
    """All requests of all conversations, in the order in which they were sent. `concurrency`: conversations at once.
    `on_done` hears of every request that has ended."""
    async with open_session(target) as session:
        places = asyncio.Semaphore(concurrency or len(load) or 1)
        start = time.perf_counter()

        async def one(due: Due) -> list[Outcome]:
            await asyncio.sleep(max(0.0, start + due.at_s - time.perf_counter()))
            async with places:
                return await _converse(session, target, due.conversation, on_done)

        done = await asyncio.gather(*(one(due) for due in load))
    return sorted((outcome for outcomes in done for outcome in outcomes), key=lambda o: o.sent_s)


async def _converse(
    session: aiohttp.ClientSession, target: Target, conversation: Conversation, on_done: Callable[[int], None]
) -> list[Outcome]:
    """A turn that fails ends the conversation: what would follow has lost its context, and counts as failed too."""
    history = list(conversation.history)
    outcomes: list[Outcome] = []
    for turn in conversation.turns:
        chunks: list[bytes] = []
        outcome = await _ask(session, target, conversation, turn, history, chunks)
        outcomes.append(outcome)
        on_done(1)
        if outcome.error is not None:
            break
        history += [
            {"role": "user", "content": turn.prompt},
            {"role": "assistant", "content": _answer(chunks)},
        ]
    missing = len(conversation.turns) - len(outcomes)
    on_done(missing)
    lost = Outcome(0, outcomes[-1].sent_s, error="an earlier turn of its conversation failed")
    return [*outcomes, *[lost] * missing]


async def _ask(
    session: aiohttp.ClientSession,
    target: Target,
    conversation: Conversation,
    turn: Turn,
    history: Sequence[Mapping[str, Any]],
    chunks: list[bytes],
) -> Outcome:
    body: dict[str, Any] = {
        "model": target.model,
        "max_tokens": turn.output_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if not conversation.is_chat:
        raw = body | {"prompt": turn.prompt} | json.loads(target.extra_body)
        return await send(session, f"{target.base_url}/completions", 0, json.dumps(raw).encode())

    def counts(line: bytes) -> bool:
        if _TEXT.search(line) is None:
            return False
        if len(conversation.turns) > 1:
            chunks.append(line)
        return True

    raw = (
        body
        | {"messages": [*history, {"role": "user", "content": turn.prompt}]}
        | json.loads(target.extra_body)
    )
    return await send(session, f"{target.base_url}/chat/completions", 0, json.dumps(raw).encode(), counts)


def _answer(chunks: Sequence[bytes]) -> str:
    deltas = (json.loads(line[6:])["choices"][0]["delta"] for line in chunks)
    return "".join(delta.get("content") or "" for delta in deltas)
