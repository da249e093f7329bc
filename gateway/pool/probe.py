"""Asking a replica how it is, without making it generate anything.

Place: the supervisor's eyes. Our own engines tell their epoch and state; a third party's engine counts as
ready when it lists its models. Knows no desired state and decides nothing.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import aiohttp
import orjson

from gateway.pool.access import EngineAccess
from gateway.pool.spec import EngineKind
from gateway.upstream.addresses import CheckedResolver
from gateway.upstream.native import authorization
from gateway.wire.load import read_delay, read_exposition

__all__ = ["EngineLoad", "EngineState", "EngineStatus", "Probe"]

EngineState = Literal["starting", "ready", "draining"]
_STATES: dict[str, EngineState] = {"starting": "starting", "ready": "ready", "draining": "draining"}
_TIMEOUT_S = 5.0
_ANSWER_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class EngineLoad:
    running: int
    waiting: int
    delay_s: float | None = None
    """What a request that came now would wait, as our own engines predict it."""


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """What the engine says of itself; a third party's engine has no epoch, and may say nothing of its load."""

    state: EngineState
    epoch: str | None = None
    load: EngineLoad | None = None


class Probe:
    """Owns an HTTP client; `close()` it when its supervisor ends."""

    def __init__(self, key: str, timeout_s: float = _TIMEOUT_S) -> None:
        """`key` is what our engines take as internal key, and others that we start as API key."""
        self._headers = {"Authorization": f"Bearer {key}"}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._client: aiohttp.ClientSession | None = None

    async def status(
        self, url: str, kind: EngineKind, access: EngineAccess | None = None
    ) -> EngineStatus | None:
        """The engine's state, or None when it does not answer as an engine does. `access` is the pool's own."""
        access = access or EngineAccess()
        try:
            if kind == "tollway":
                answer, headers = await self._ask(f"{url}/internal/status", self._headers)
                return _parse(orjson.loads(answer), read_delay(headers))
            # An engine that somebody else runs must never see the key of ours.
            key = authorization(access.api_key) if kind == "external" else self._headers
            orjson.loads((await self._ask(f"{url}/v1/models", key, access.tls))[0])
            return EngineStatus("ready", None, await self._exposed(url, key) if kind != "external" else None)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
            return None

    async def _exposed(self, url: str, key: Mapping[str, str]) -> EngineLoad | None:
        """From the metrics of an engine that has no status."""
        try:
            said, _ = await self._ask(f"{url}/metrics", key)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
            return None
        load = read_exposition(said.decode(errors="replace"))
        return EngineLoad(load.running, load.waiting) if load is not None else None

    async def drain(self, url: str) -> bool:
        """Ask an engine of ours to finish and exit; repeating it changes nothing."""
        try:
            async with self._session().post(f"{url}/internal/drain", headers=self._headers) as answer:
                return answer.status == 202
        except (TimeoutError, aiohttp.ClientError, OSError):
            return False

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _ask(
        self, url: str, headers: Mapping[str, str], tls: ssl.SSLContext | None = None
    ) -> tuple[bytes, Mapping[str, str]]:
        """Body and headers."""
        async with self._session().get(
            url,
            headers=headers,
            ssl=tls or True,
            allow_redirects=False,  # nobody is sent elsewhere with a key
        ) as answer:
            if answer.status != 200:
                raise ValueError("it refuses to say")
            if answer.content_length is not None and answer.content_length > _ANSWER_BYTES_MAX:
                raise ValueError("a status answer of that size is none")
            return await answer.read(), answer.headers

    def _session(self) -> aiohttp.ClientSession:
        if self._client is None:
            # A fresh connection each time: a restarted replica at the same address is met at once.
            connector = aiohttp.TCPConnector(force_close=True, resolver=CheckedResolver())
            self._client = aiohttp.ClientSession(connector=connector, timeout=self._timeout)
        return self._client


def _parse(answer: object, delay_ms: int | None) -> EngineStatus:
    if not isinstance(answer, dict):
        raise ValueError("the status is no object")
    state, epoch = answer.get("state"), answer.get("epoch")
    if state not in _STATES or not isinstance(epoch, str):
        raise ValueError("the status has no state or no epoch")
    return EngineStatus(_STATES[state], epoch, _load(answer, delay_ms))


def _load(answer: Mapping[str, object], delay_ms: int | None) -> EngineLoad | None:
    running, waiting = answer.get("running"), answer.get("waiting")
    if not (isinstance(running, int) and isinstance(waiting, int)):
        return None
    return EngineLoad(max(running, 0), max(waiting, 0), delay_ms / 1e3 if delay_ms is not None else None)
