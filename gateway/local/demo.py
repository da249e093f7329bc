"""The demo: a tenant with a key, two real requests through the `openai` package, and their ledger lines.

Place: the last steps of `tollway up`. The key is made and shown once; later starts find it in `demo.env`.
Knows the gateway only as any client does, by its URL.
"""

import asyncio
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from sqlalchemy import func, select

from gateway.audit.repository import Actor, AuditRepository
from gateway.clock import Clock
from gateway.db import DATABASE_ERRORS, Database
from gateway.errors import Conflict
from gateway.ids import Entropy, IdSource
from gateway.ledger.models import ConfigRevision, UsageEvent
from gateway.pool.models import Pool, Replica
from gateway.settings import Settings
from gateway.tenancy import Peppers, TenancyService, default_limits
from gateway.tenancy.bootstrap import bootstrap
from gateway.tenancy.repository import TenancyRepository

__all__ = [
    "ENGINE_URL",
    "EngineAddress",
    "Environment",
    "Exchange",
    "LedgerLine",
    "Tenancy",
    "ask",
    "ledger_lines",
]

COMPLETION_PROMPT = "The three primary colours are red, yellow and blue. The days of the week are"
CHAT_PROMPT = "Say hello."
COMPLETION_TOKENS = 40
CHAT_TOKENS = 24
ENGINE_URL = "TOLLWAY_ENGINE_URL"
LOOK_S = 5.0
_SETTLE_POLLS = 100
_POLL_S = 0.1
_TENANT = "demo"


class Environment:
    """`demo.env`: addresses and keys as shell assignments, for its owner only."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, str]:
        try:
            lines = self.path.read_text().splitlines()
        except FileNotFoundError:
            return {}
        pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
        return {name: "".join(shlex.split(value)) for name, _, value in pairs}

    def write(self, values: Mapping[str, str]) -> None:
        fresh = self.path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        fresh.touch(mode=0o600)
        fresh.write_text("".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items()))
        fresh.replace(self.path)


class EngineAddress:
    """Keeps the engine's address in `demo.env` true: a replica that was replaced answers elsewhere."""

    def __init__(self, environment: Environment, pool_name: str, clock: Clock) -> None:
        self._environment, self._pool_name, self._clock = environment, pool_name, clock
        self._look_again_at = 0.0

    async def look(self, database_url: str) -> None:
        """At most every `LOOK_S`. Nothing is changed while no replica is ready, or the database away."""
        if self._clock.monotonic() < self._look_again_at:
            return
        self._look_again_at = self._clock.monotonic() + LOOK_S
        database = Database(database_url, name="tollway-up", pool_size=1)
        query = select(Replica.url).join(Pool, Pool.id == Replica.pool_id).order_by(Replica.created_at)
        try:
            async with database.read() as session:
                ready = query.where(Pool.name == self._pool_name, Replica.state == "ready")
                urls = [url for url in await session.scalars(ready) if url is not None]
        except DATABASE_ERRORS:
            return  # it is watched by others
        finally:
            await database.close()
        known = self._environment.read()
        if urls and known.get(ENGINE_URL) not in urls:
            self._environment.write(known | {ENGINE_URL: urls[0]})


class Tenancy:
    """Makes the demo's keys when they do not exist yet."""

    def __init__(self, database: Database, settings: Settings, clock: Clock, entropy: Entropy) -> None:
        self._database = database
        self._peppers = Peppers.from_settings(settings.security)
        self._clock, self._entropy = clock, entropy
        self._ids = IdSource(clock)
        audit = AuditRepository(clock, self._ids)
        self._service = TenancyService(
            TenancyRepository(),
            audit,
            self._peppers,
            clock,
            self._ids,
            entropy,
            default_limits(settings.limits),
        )

    async def new_tenant_key(self) -> str:
        """A demo tenant and its key; an older demo tenant whose key was lost stays as it is."""
        actor = Actor("system", "up")
        async with self._database.write() as session:
            tenant_id = await self._service.create_tenant(session, actor, _TENANT)
            account = await self._service.create_service_account(session, actor, tenant_id, _TENANT)
            issued = await self._service.create_key(session, actor, tenant_id, _TENANT, account)
        assert issued.value is not None, "a new key has its value"
        return issued.value

    async def first_admin_key(self) -> str | None:
        """None when there is one already: its value was shown to whoever made it."""
        try:
            issued = await bootstrap(self._database, self._peppers, self._clock, self._ids, self._entropy)
        except Conflict:
            return None
        return issued.value


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request as its caller saw it."""

    request_id: str
    prompt_tokens: int
    completion_tokens: int
    first_token_ms: int
    total_ms: int


@dataclass(frozen=True, slots=True)
class LedgerLine:
    request_id: str
    endpoint: str
    status: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    amount_nanousd: int


async def key_works(base_url: str, key: str) -> bool:
    headers = {"Authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession() as client, client.get(f"{base_url}/models", headers=headers) as answer:
        return answer.status == 200


async def knows_the_newest(base_url: str, admin_key: str, database: Database) -> bool:
    """Whether the gateway has read all that was configured, the new engine among it. It looks once a second;
    a request before that would be refused and tried again, and the demo's times would not be true."""
    async with database.read() as session:
        newest = await session.scalar(select(func.sum(ConfigRevision.revision)))
    headers = {"Authorization": f"Bearer {admin_key}"}
    url = base_url.removesuffix("/v1") + "/metrics"
    async with aiohttp.ClientSession() as client, client.get(url, headers=headers) as answer:
        if answer.status != 200:  # a key of another installation: nothing can be said
            return True
        found = re.search(r"^tollway_config_feed_revision (\S+)$", await answer.text(), re.MULTILINE)
    return found is not None and float(found[1]) >= (newest or 0)


async def ask(
    base_url: str, key: str, model: str, show: Callable[[str], None], clock: Clock
) -> list[Exchange]:
    """A streamed completion, whose text is shown as it comes, and a chat request."""
    from openai import AsyncOpenAI  # a second to import: only for the demo

    async with AsyncOpenAI(base_url=base_url, api_key=key, max_retries=2, timeout=300) as client:
        began = clock.monotonic()
        first = 0.0
        stream = await client.completions.create(
            model=model, prompt=COMPLETION_PROMPT, max_tokens=COMPLETION_TOKENS, temperature=0,
            stream=True, stream_options={"include_usage": True},
        )  # fmt: skip
        usage = None
        show(COMPLETION_PROMPT)
        async for chunk in stream:
            first = first or clock.monotonic()
            show(chunk.choices[0].text if chunk.choices else "")
            usage = chunk.usage or usage
        show("\n")
        assert usage is not None, "usage was asked for"
        completion = _exchange(stream.response.headers["x-request-id"], usage, began, first, clock)
        began = clock.monotonic()
        answer = await client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": CHAT_PROMPT}], max_tokens=CHAT_TOKENS, temperature=0,
        )  # fmt: skip
        show(f"{answer.choices[0].message.content}\n")
        chat = _exchange(answer._request_id or "", answer.usage, began, clock.monotonic(), clock)
    return [completion, chat]


def _exchange(request_id: str, usage: object, began: float, first: float, clock: Clock) -> Exchange:
    prompt, completion = getattr(usage, "prompt_tokens", 0), getattr(usage, "completion_tokens", 0)
    total_ms = round((clock.monotonic() - began) * 1000)
    return Exchange(request_id, prompt, completion, round((first - began) * 1000), total_ms)


async def ledger_lines(database: Database, request_ids: Sequence[str]) -> list[LedgerLine]:
    """The usage events of these requests, as soon as all are settled."""
    query = select(UsageEvent).where(UsageEvent.request_id.in_(request_ids)).order_by(UsageEvent.occurred_at)
    for _ in range(_SETTLE_POLLS):
        async with database.read() as session:
            events = list(await session.scalars(query))
        if len(events) >= len(request_ids):
            break
        await asyncio.sleep(_POLL_S)
    return [
        LedgerLine(
            event.request_id, event.endpoint, event.status,
            event.prompt_uncached_tokens + event.prompt_cached_tokens, event.prompt_cached_tokens,
            event.completion_tokens, event.amount_nanousd,
        )
        for event in events
    ]  # fmt: skip
