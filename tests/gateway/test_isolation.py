"""Tenants that share one engine: none gets a token of another's, finds another's prefix, or is written into a log.

A real gateway and a real engine, whose answers depend on nothing but the request (`--batch-invariant`).
`make canary` runs the streams at 500.
"""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest

from gateway.exchange.identity import Pseudonyms
from gateway.obs.logging import configure_logging
from tests.engine.test_core_process import Engine, serving
from tests.harness import SERVED, Gateway, Tenant
from tests.models import write_tiny_llama

STREAMS = int(os.environ.get("CANARY_STREAMS", "120"))
TENANTS = 20
SHARED = (
    "The keeper of the lighthouse wrote down every ship that passed, and so did the keeper before him. " * 2
)
FLAGS = ("--batch-invariant", "--kv-cache-dtype", "float32", "--max-num-seqs", "48")


@dataclass
class Served:
    """A real engine in the place of a `FakeEngine`."""

    engine: Engine
    epoch: str
    log: Path
    model: str = "m"

    @property
    def url(self) -> str:
        return self.engine.url


@pytest.fixture
def gateway_changes() -> dict[str, Any]:
    return {
        "upstream": {"internal_key": "internal", "first_token_timeout_s": 120.0, "connect_timeout_s": 30.0}
    }


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    write_tiny_llama(tmp_path / "model")
    log = tmp_path / "engine.log"
    async with serving(tmp_path / "model", *FLAGS, log=log) as engine:
        yield Served(engine, (await engine.status())["epoch"], log)


async def _tenants(gateway: Gateway, served: Served, count: int) -> list[Tenant]:
    first = await gateway.serve(served)  # type: ignore[arg-type]  # has what a pool needs
    others = [await gateway.tenant(f"tenant-{number}") for number in range(1, count)]
    await gateway.refresh()
    return [first, *others]


def _canary(number: int) -> str:
    return f"zq{number:04d}qz"


def _request(number: int) -> dict[str, Any]:
    """Different prompts, lengths and seeds; a few words in common, so that prefixes are shared where they may be."""
    prompt = f"{SHARED[: 40 + number % 3 * 20]}{_canary(number)} " + "and on " * (number % 5)
    extra = {"return_token_ids": True, "ignore_eos": True}
    return {
        "prompt": prompt,
        "max_tokens": 8 + number % 9,
        "temperature": 1,
        "seed": number,
        "extra_body": extra,
    }


async def _stream(client: openai.AsyncOpenAI, number: int) -> tuple[str, list[int]]:
    """The gateway's id of the request, and the stream's token ids."""
    raw = await client.completions.with_raw_response.create(model=SERVED, stream=True, **_request(number))
    ids: list[int] = []
    async for chunk in raw.parse():
        for choice in chunk.choices:
            ids += getattr(choice, "token_ids", None) or []
    return raw.headers["x-request-id"], ids


async def _alone(engine: Engine, number: int) -> tuple[int, list[int]]:
    """The prompt's tokens and the answer's ids, with nothing beside it and without the gateway."""
    answer = await engine.complete(**_request(number))
    return answer.usage.prompt_tokens, answer.choices[0].token_ids


async def _refused(client: openai.AsyncOpenAI, number: int) -> list[int]:
    """What is refused must not be explained in a log either."""
    word = _canary(number)
    bodies: list[dict[str, Any]] = [
        {"model": SERVED, "prompt": f"{word} " * 400},
        {"model": f"model-{number}", "prompt": word},
        {"model": SERVED, "prompt": word, "logit_bias": {word: 1}},
    ]
    statuses = []
    for body in bodies:
        with pytest.raises(openai.APIStatusError) as caught:
            await client.completions.create(**body)
        statuses.append(caught.value.status_code)
    return statuses


@pytest.mark.timeout(900)
async def test_no_stream_holds_a_token_of_another(gateway: Gateway, served: Served) -> None:
    """Duty F34: many streams at once are what each is alone, billed to its own tenant, and no log holds a prompt."""
    lines = io.StringIO()
    configure_logging("info", lines)
    tenants = await _tenants(gateway, served, TENANTS)
    clients = [gateway.client(tenant, timeout=200.0) for tenant in tenants]
    numbers = range(STREAMS)
    alone = [await _alone(served.engine, number) for number in numbers]
    assert len({tuple(ids) for _, ids in alone}) == STREAMS, "answers that are alike would prove nothing"

    streams = await asyncio.gather(*(_stream(clients[number % TENANTS], number) for number in numbers))
    assert [ids for _, ids in streams] == [ids for _, ids in alone]
    events = {event["request_id"]: event for event in await gateway.events(STREAMS, within_s=60)}
    for number, (request_id, ids) in enumerate(streams):
        event = events[request_id]
        assert event["tenant_id"] == tenants[number % TENANTS].id
        billed = event["prompt_uncached_tokens"] + event["prompt_cached_tokens"]
        assert (billed, event["completion_tokens"]) == (alone[number][0], len(ids))

    assert await _refused(clients[0], STREAMS) == [400, 404, 400]
    configure_logging("warning")
    written = lines.getvalue()
    assert written.count('"event": "request"') >= STREAMS
    assert served.log.stat().st_size > 0
    for text in (written, served.log.read_text()):
        assert [word for word in map(_canary, range(STREAMS + 1)) if word in text] == []


async def test_a_prefix_is_found_by_its_own_tenant_only(gateway: Gateway, served: Served) -> None:
    """Duty F33: the same tenant hits its prefix, another never does, whatever salt either of them sends."""
    owner, other = await _tenants(gateway, served, 2)
    clients = [gateway.client(tenant) for tenant in (owner, other)]
    principal = await gateway.app.directory.authenticate(f"Bearer {owner.key}", None)
    salt = Pseudonyms(gateway.app.master.keys.derived_root()).cache_salt(principal)
    sent: tuple[dict[str, Any], ...] = (
        {},
        {"extra_body": {"cache_salt": salt}},
        {"extra_headers": {"x-cache-salt": salt, "x-gateway-inference-fairness-id": salt}},
    )

    async def cached(client: openai.AsyncOpenAI, prompt: str, options: dict[str, Any]) -> int:
        answer = await client.completions.create(model=SERVED, prompt=prompt, max_tokens=1, **options)
        assert answer.usage is not None
        details = answer.usage.prompt_tokens_details
        return (details.cached_tokens or 0) if details is not None else 0

    for number, options in enumerate(sent):
        prompt = f"{number} {SHARED}"
        assert await cached(clients[0], prompt, {}) == 0
        hit = await cached(clients[0], prompt, options)
        assert hit > 0
        assert await cached(clients[1], prompt, options) == 0
        assert await cached(clients[1], prompt, {}) == hit
    events = await gateway.events(4 * len(sent))
    found = [(event["tenant_id"], event["prompt_cached_tokens"] > 0) for event in events]
    assert found == [(owner.id, False), (owner.id, True), (other.id, False), (other.id, True)] * len(sent)
