"""Requests whose answers are known from an undisturbed run, and callers that ask them over and over.

Greedy or seeded, on engines that compute alike whatever else is in the batch: an answer has one right form, token by
token, whoever gave which part of it.
"""

import asyncio
import random
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.e2e.chaos.cluster import TenantPlan
from tests.e2e.chaos.load import REQUEST_TIMEOUT_S, Record, read_error, read_stream, read_whole
from tests.harness import SERVED

OUTPUTS = (20, 60, 110)


@dataclass
class Ask:
    """One request with its only right answer."""

    number: int
    body: dict[str, Any]
    expected: list[int] = field(default_factory=list)

    @property
    def path(self) -> str:
        return "/v1/chat/completions" if "messages" in self.body else "/v1/completions"

    @property
    def is_stream(self) -> bool:
        return bool(self.body["stream"])


@dataclass
class Answer:
    ask: Ask
    record: Record
    took_s: float = 0.0

    @property
    def is_right(self) -> bool:
        return self.record.end == "complete" and self.record.token_ids == self.ask.expected

    def __str__(self) -> str:
        got, want = self.record.token_ids, self.ask.expected
        same = next(
            (n for n, (a, b) in enumerate(zip(got, want, strict=False)) if a != b), min(len(got), len(want))
        )
        return (
            f"ask {self.ask.number} ({'stream' if self.ask.is_stream else 'whole'}): {self.record.end}, status"
            f" {self.record.status} {self.record.code}, {self.record.request_id}, {same} of {len(want)} tokens right,"
            f" {len(got)} came, {self.took_s:.2f} s"
        )


def asks(seed: str, count: int = 16) -> list[Ask]:
    draw = random.Random(seed)
    made = []
    for number in range(count):
        words = " ".join(str(draw.randrange(50)) for _ in range(draw.randrange(3, 60)))
        sampled = {"temperature": 0.8, "seed": draw.randrange(1 << 30)}
        body: dict[str, Any] = {
            "model": SERVED,
            "max_tokens": draw.choice(OUTPUTS),
            "ignore_eos": True,
            "return_token_ids": True,
            "stream": draw.random() < 0.75,
            **(sampled if number % 2 else {"temperature": 0}),
        }
        if body["stream"]:
            body["stream_options"] = {"include_usage": True}
        body |= (
            {"prompt": words} if draw.random() < 0.5 else {"messages": [{"role": "user", "content": words}]}
        )
        made.append(Ask(number, body))
    return made


class Callers:
    """Of one tenant. Every answer is kept."""

    def __init__(self, url: str, plan: TenantPlan, seed: str) -> None:
        self.answers: list[Answer] = []
        self._url = url
        self._plan = plan
        self._draw = random.Random(seed)
        self._count = 0

    @property
    def records(self) -> list[Record]:
        return [answer.record for answer in self.answers]

    async def once(self, client: aiohttp.ClientSession, ask: Ask) -> Answer:
        self._count += 1
        record = Record(f"fleet/{self._count}", self._plan, ask.is_stream, ask.body["max_tokens"])
        answer = Answer(ask, record)
        self.answers.append(answer)
        began = time.monotonic()
        headers = {"authorization": f"Bearer {self._plan.tenant.key}"}
        body = ask.body | {"user": record.tag}
        try:
            async with (
                asyncio.timeout(REQUEST_TIMEOUT_S),
                client.post(self._url + ask.path, json=body, headers=headers) as reply,
            ):
                record.status, record.request_id = reply.status, reply.headers.get("x-request-id")
                if reply.status != 200:
                    read_error(record, await reply.read())
                elif ask.is_stream:
                    await read_stream(record, reply)
                else:
                    read_whole(record, await reply.json(content_type=None))
        except (aiohttp.ClientError, OSError):
            record.end = "lost"
        answer.took_s = time.monotonic() - began
        return answer

    async def learn(self, known: Iterable[Ask]) -> None:
        """Each by itself, undisturbed: what is right from now on."""
        async with aiohttp.ClientSession() as client:
            for ask in known:
                answer = await self.once(client, ask)
                assert answer.record.end == "complete", str(answer)
                ask.expected = answer.record.token_ids

    async def go_on(self, known: Sequence[Ask], stopping: asyncio.Event, callers: int) -> list[Answer]:
        """Ask at random until told to stop; the answers of this time."""
        first = len(self.answers)

        async def one() -> None:
            async with aiohttp.ClientSession() as client:
                while not stopping.is_set():
                    await self.once(client, self._draw.choice(known))

        await asyncio.gather(*(one() for _ in range(callers)))
        return self.answers[first:]


def p95_s(answers: Sequence[Answer]) -> float:
    return statistics.quantiles([answer.took_s for answer in answers], n=20)[-1]
