"""The callers: a mixture of requests over both gateways, and their own record of every token they were given.

Each request names itself in its `user` field, whose pseudonym is on the event: a record finds its event even if
the connection died before one byte of an answer came.
"""

import asyncio
import contextlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp

from tests.e2e.chaos.cluster import CONTEXT, TenantPlan
from tests.harness import SERVED

End = Literal["open", "complete", "cut", "lost", "failed", "refused"]
"""cut: the caller left. lost: the connection broke. failed: an error answer or event. refused: 4xx or 429."""

REQUEST_TIMEOUT_S = 60.0
OUTPUTS = (3, 8, 20, 60, 110)


@dataclass
class Record:
    """One request as its caller saw it."""

    tag: str
    plan: TenantPlan
    is_stream: bool
    max_tokens: int
    leaves_after: int | None = None
    is_bad: bool = False
    retry_count: int = 0
    end: End = "open"
    status: int | None = None
    code: str | None = None
    request_id: str | None = None
    token_ids: list[int] = field(default_factory=list)
    usage: dict[str, Any] | None = None

    @property
    def has_data(self) -> bool:
        return bool(self.token_ids)

    @property
    def is_decided(self) -> bool:
        """Its budget has admitted or refused it; it did not fail for another reason."""
        return self.end in ("complete", "cut") or self.status == 429


class Caller:
    """Makes requests of one tenant until told to stop."""

    def __init__(self, plan: TenantPlan, urls: Sequence[str], seed: str, records: list[Record]) -> None:
        self._plan = plan
        self._urls = urls
        self._random = random.Random(seed)
        self._seed = seed
        self._records = records
        self._count = 0

    async def run(self, stopping: asyncio.Event) -> None:
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector) as client:
            while not stopping.is_set():
                record = await self.once(client)
                if record.end in ("lost", "failed") and self._random.random() < 0.5:
                    await self.once(client, retry_of=record)
                pause = 0.25 if record.end == "refused" else 0.05 * self._random.random()
                await asyncio.sleep(pause)

    async def once(
        self, client: aiohttp.ClientSession, retry_of: Record | None = None, max_tokens: int | None = None
    ) -> Record:
        draw = self._random
        self._count += 1
        record = Record(
            tag=f"{self._seed}/{self._count}",
            plan=self._plan,
            is_stream=draw.random() < 0.6,
            max_tokens=max_tokens or draw.choice(OUTPUTS),
            retry_count=retry_of.retry_count + 1 if retry_of else 0,
        )
        if max_tokens is None and retry_of is None:
            if record.is_stream and draw.random() < 0.25:
                record.leaves_after = draw.randrange(0, record.max_tokens)
            elif draw.random() < 0.08:
                record.is_bad = True
        self._records.append(record)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await self._ask(client, record)
        except TimeoutError:
            raise AssertionError(f"{record.tag} hangs") from None
        except (aiohttp.ClientError, OSError):
            record.end = "lost"
            await asyncio.sleep(0.3 if record.status is None else 0)
        return record

    async def _ask(self, client: aiohttp.ClientSession, record: Record) -> None:
        url = self._random.choice(self._urls)
        path, body = self._body(record)
        headers = {
            "authorization": f"Bearer {record.plan.tenant.key}",
            "x-stainless-retry-count": str(record.retry_count),
        }
        async with client.post(url + path, json=body, headers=headers) as answer:
            record.status = answer.status
            record.request_id = answer.headers.get("x-request-id")
            if answer.status != 200:
                read_error(record, await answer.read())
            elif record.is_stream:
                await read_stream(record, answer)
            else:
                read_whole(record, await answer.json(content_type=None))

    def _body(self, record: Record) -> tuple[str, dict[str, Any]]:
        words = " ".join(str(self._random.randrange(50)) for _ in range(self._random.randrange(1, 12)))
        body: dict[str, Any] = {
            "model": SERVED,
            "max_tokens": record.max_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
            "user": record.tag,
            "stream": record.is_stream,
        }
        if record.is_stream:
            body["stream_options"] = {"include_usage": True}
        is_chat = self._random.random() < 0.5
        body |= {"messages": [{"role": "user", "content": words}]} if is_chat else {"prompt": words}
        if record.is_bad:
            body |= self._random.choice(
                [{"model": "nobodys"}, {"temperature": 9}, {"max_tokens": CONTEXT * 4}, {"logit_bias": 3}]
            )
        return ("/v1/chat/completions" if is_chat else "/v1/completions"), body


def read_error(record: Record, raw: bytes) -> None:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        record.code = json.loads(raw)["error"]["code"]
    assert record.status is not None
    record.end = "refused" if record.status < 500 else "failed"


def read_whole(record: Record, answer: dict[str, Any]) -> None:
    record.token_ids = answer["choices"][0]["token_ids"]
    record.usage = answer["usage"]
    record.end = "complete"


async def read_stream(record: Record, answer: aiohttp.ClientResponse) -> None:
    """To `[DONE]`, an error, or as many tokens as this caller wants."""
    if record.leaves_after == 0:
        record.end = "cut"
        return
    async for line in answer.content:
        data = line.decode().removeprefix("data: ").strip()
        if not line.startswith(b"data: "):
            continue
        if data == "[DONE]":
            record.end = "complete"
            return
        event = json.loads(data)
        if "error" in event:
            record.end, record.code = "failed", event["error"].get("code")
            return
        record.usage = event.get("usage") or record.usage
        for choice in event["choices"]:
            record.token_ids += choice.get("token_ids") or []
        if record.leaves_after is not None and len(record.token_ids) >= record.leaves_after:
            record.end = "cut"
            return
    record.end = "lost"


async def burst(callers: Sequence[Caller], rounds: int) -> None:
    """Everybody at once, with the smallest requests: batches of several tenants meet on the same rows."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as client:
        for _ in range(rounds):
            await asyncio.gather(*(caller.once(client, max_tokens=min(OUTPUTS)) for caller in callers))


async def exhaust(caller: Caller, records: list[Record], plan: TenantPlan, refused_share: float) -> None:
    """Go on with the smallest requests, many at once, until the budget takes none and enough were refused."""
    sizes = iter(sorted(OUTPUTS, reverse=True))
    size = next(sizes)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as client:
        for _ in range(60):
            batch = await asyncio.gather(*(caller.once(client, max_tokens=size) for _ in range(12)))
            mine = [one for one in records if one.plan is plan and one.is_decided]
            refused = sum(one.status == 429 for one in mine)
            if any(one.end != "refused" for one in batch):
                continue
            if size != min(OUTPUTS):
                size = next(sizes)
            elif refused >= refused_share * len(mine):
                return
    raise AssertionError(f"{plan.name} never spends its budget")
