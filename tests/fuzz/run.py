"""Asks a running engine many things at once, and says what no engine may do: die, answer 5xx, hang or grow.

An answer is right when it is what the OpenAPI document says of its status: complete and with no key left over, or an
error of OpenAI's shape. Between requests a plain one is asked, whose answer must never change: whatever others send,
it is nobody else's business.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field

import aiohttp

from tests.engine.server.openapi.described import Described
from tests.engine.server.streams import parse
from tests.engine.server.test_resume import resume_body
from tests.fuzz.requests import LEAVE_AFTER_S, Request, draw

ANSWER_WITHIN_S = 240.0
"""Twice as long as a request may wait in line: one that is refused then is answered too."""
PLAIN_EVERY = 50
PLAIN = {"model": "m", "prompt": "The lamps at dusk", "max_tokens": 8, "temperature": 0, "ignore_eos": True}
OVERLOAD = (503, b'"server_is_overloaded"')
"""The one answer of 5xx that says nothing bad: a queue has an end."""


@dataclass
class Report:
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    """By path."""
    seen: Counter[str] = field(default_factory=Counter)
    """What good answers had in them."""
    left: int = 0
    faults: list[str] = field(default_factory=list)
    plain: set[str] = field(default_factory=set)
    """Texts of the plain request; one, if all is well."""

    def count(self, status: int) -> int:
        return sum(number for (_, found), number in self.statuses.items() if found == status)


async def fuzz(session: aiohttp.ClientSession, seed: int | str, count: int, at_once: int = 16) -> Report:
    """Requests number 0 to `count` of `seed`, `at_once` of them at a time."""
    report = Report()
    described = Described(closed=True)
    numbers = iter(range(count))

    async def caller() -> None:
        for number in numbers:
            name, request = f"{seed}/{number}", draw(random.Random(f"{seed}/{number}"))
            try:
                async with asyncio.timeout(LEAVE_AFTER_S if request.leaves else ANSWER_WITHIN_S):
                    raw = await _ask(session, request, name, report, described)
                    if request.cut_at is not None and raw.startswith(b": resume"):
                        await _ask(session, _rest(request, raw), f"{name}, the rest", report, described)
            except TimeoutError:
                report.left += 1
                if not request.leaves:
                    report.faults.append(f"{name} {request.path}: no answer")
            except aiohttp.ClientError as error:
                report.faults.append(f"{name} {request.path}: {error!r}")
            if number % PLAIN_EVERY == 0:
                report.plain.add(await _plain(session))

    await asyncio.gather(*(caller() for _ in range(at_once)))
    return report


def _rest(request: Request, raw: bytes) -> Request:
    """A stream's continuation from the place where it is cut."""
    assert request.cut_at is not None
    blocks = [block for block in parse(raw) if block.data != b"[DONE]"]
    relayed = blocks[: 1 + int(request.cut_at * len(blocks))]
    body = resume_body(relayed, json.loads(request.body), resumed_from=0)
    return Request("/internal/resume", json.dumps(body).encode(), headers=request.headers)


async def _ask(
    session: aiohttp.ClientSession, request: Request, name: str, report: Report, described: Described
) -> bytes:
    headers = {"content-type": "application/json", **request.headers}
    async with session.post(request.path, data=request.body, headers=headers) as answer:
        raw = await answer.read()
        kind = answer.headers.get("content-type", "")
    report.statuses[request.path, answer.status] += 1
    wrong = _wrong(request.path, answer.status, kind, raw, described)
    if wrong:
        report.faults.append(
            f"{name} {request.path}: {answer.status} {wrong} {raw[-300:]!r} for {request.body[:1000]!r}"
        )
    elif answer.status == 200:
        report.seen.update(word for word in _WORDS if word.encode() in raw)
    return raw


_WORDS = (
    '"tool_calls":[',
    '"reasoning":"',
    '"prompt_logprobs":[',
    '"embedding":',
    '"stop_reason":"',
    ": ids ",
)


def _wrong(path: str, status: int, kind: str, raw: bytes, described: Described) -> str:
    if status >= 500 and not (status == OVERLOAD[0] and OVERLOAD[1] in raw):
        return "is no answer to anything"
    try:
        found = described.faults_of_answer("POST", path, status, kind, raw)
    except ValueError:
        return "is no JSON"
    return "; ".join(found[:3])


async def _plain(session: aiohttp.ClientSession) -> str:
    async with session.post("/v1/completions", json=PLAIN) as answer:
        body = await answer.json()
    return str(body["choices"][0]["text"]) if answer.status == 200 else f"{answer.status}: {body}"
