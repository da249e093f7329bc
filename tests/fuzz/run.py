"""Asks a running engine many things at once, and says what no engine may do: die, answer 5xx, hang or grow.

An answer is right when it is 200 and complete, or 4xx with an error of OpenAI's shape. Between requests a plain one is
asked, whose answer must never change: whatever others send, it is nobody else's business.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field

import aiohttp

from tests.fuzz.requests import LEAVE_AFTER_S, Request, draw

ANSWER_WITHIN_S = 120.0
PLAIN_EVERY = 50
PLAIN = {"model": "m", "prompt": "The lamps at dusk", "max_tokens": 8, "temperature": 0, "ignore_eos": True}


@dataclass
class Report:
    statuses: Counter[int] = field(default_factory=Counter)
    left: int = 0
    faults: list[str] = field(default_factory=list)
    plain: set[str] = field(default_factory=set)
    """Texts of the plain request; one, if all is well."""


async def fuzz(session: aiohttp.ClientSession, seed: int | str, count: int, at_once: int = 16) -> Report:
    """Requests number 0 to `count` of `seed`, `at_once` of them at a time."""
    report = Report()
    numbers = iter(range(count))

    async def caller() -> None:
        for number in numbers:
            request = draw(random.Random(f"{seed}/{number}"))
            try:
                async with asyncio.timeout(LEAVE_AFTER_S if request.leaves else ANSWER_WITHIN_S):
                    await _ask(session, request, f"{seed}/{number}", report)
            except TimeoutError:
                report.left += 1
                if not request.leaves:
                    report.faults.append(f"{seed}/{number} {request.path}: no answer")
            except aiohttp.ClientError as error:
                report.faults.append(f"{seed}/{number} {request.path}: {error!r}")
            if number % PLAIN_EVERY == 0:
                report.plain.add(await _plain(session))

    await asyncio.gather(*(caller() for _ in range(at_once)))
    return report


async def _ask(session: aiohttp.ClientSession, request: Request, name: str, report: Report) -> None:
    headers = {"content-type": "application/json"}
    async with session.post(request.path, data=request.body, headers=headers) as answer:
        raw = await answer.read()
    report.statuses[answer.status] += 1
    wrong = _wrong(answer.status, answer.headers.get("content-type", ""), raw)
    if wrong:
        report.faults.append(
            f"{name} {request.path}: {answer.status} {wrong} {raw[-300:]!r} for {request.body[:500]!r}"
        )


def _wrong(status: int, kind: str, raw: bytes) -> str:
    if status >= 500:
        return "is no answer to anything"
    if kind.startswith("text/event-stream"):
        return "" if raw.endswith((b"data: [DONE]\n\n",)) or b'"error"' in raw else "ends in the middle"
    try:
        body = json.loads(raw)
    except ValueError:
        return "is no JSON"
    if status == 200:
        return ""
    error = body.get("error") if isinstance(body, dict) else None
    return (
        ""
        if isinstance(error, dict) and {"message", "type", "param", "code"} <= error.keys()
        else "has no error"
    )


async def _plain(session: aiohttp.ClientSession) -> str:
    async with session.post("/v1/completions", json=PLAIN) as answer:
        body = await answer.json()
    return str(body["choices"][0]["text"]) if answer.status == 200 else f"{answer.status}: {body}"
