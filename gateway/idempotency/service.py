"""One request per idempotency key: the first runs, others wait or get its answer.

A tenant opts in; the key is hashed with the tenant, so it means nothing elsewhere. What is kept is a whole answer of
status 200, sealed, for 24 hours; a stream is only kept from running twice at once. A request that fails, or whose
caller leaves, frees its key: the next one is a new request. It does not know how answers are made or sent.
"""

import asyncio
import hashlib
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from gateway.clock import Clock
from gateway.db import DATABASE_ERRORS, Database, reason
from gateway.errors import ServiceUnavailable
from gateway.idempotency.errors import KeyNotUsable, KeyReused, StillInFlight
from gateway.idempotency.repository import Key, claim, forget, keep, owner_of
from gateway.ids import RequestId, TenantId
from gateway.keyring import SecretBox
from gateway.obs.logging import get_logger
from gateway.obs.metrics import Metrics

__all__ = ["KEPT", "Claim", "Idempotency", "StoredAnswer"]

KEPT = timedelta(hours=24)
KEY_LENGTH_MAX = 255
SILENT_S = 30.0
"""A gateway run that has been silent for this long answers nobody any more."""


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The answer to an earlier request with the same key and body."""

    body: bytes
    request_id: RequestId


class Claim:
    """This request's hold on its key. `keep` its answer, and `close` it in any case."""

    def __init__(self, owner: "Idempotency", key: Key) -> None:
        self._owner = owner
        self._key = key
        self._is_kept = False

    async def keep(self, body: bytes) -> None:
        """Before the caller sees it: one that loses the connection now gets the same answer later. From here on the
        answer is kept even if the caller leaves."""
        self._is_kept = True
        await asyncio.shield(self._owner.spawn(self._owner.store(self._key, body)))

    def close(self) -> None:
        """Never awaits."""
        if not self._is_kept:
            self._owner.spawn(self._owner.free(self._key))


class Idempotency:
    """One per gateway run."""

    def __init__(
        self, database: Database, seal: SecretBox, instance_id: str, clock: Clock, metrics: Metrics
    ) -> None:
        self._database = database
        self._seal = seal
        self._instance_id = instance_id
        self._clock = clock
        self._metrics = metrics
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = get_logger(__name__)

    async def begin(
        self, tenant_id: TenantId, value: str, endpoint: str, body: bytes, request_id: RequestId
    ) -> Claim | StoredAnswer:
        """Raises KeyReused (400), StillInFlight (409), and 503 while the database is away: without it nobody knows."""
        key = _key(tenant_id, value, endpoint, body, request_id)
        try:
            async with self._database.statement() as connection:
                owner = await claim(
                    connection,
                    key,
                    self._instance_id,
                    now=self._clock.now(),
                    kept=KEPT,
                    silent_s=SILENT_S,
                )
        except DATABASE_ERRORS as error:
            self._log.warning("idempotency_key_not_claimed", request_id=request_id, error=reason(error))
            raise ServiceUnavailable("The service cannot look up the Idempotency-Key right now.") from error
        if owner is None:
            self._count("first")
            return Claim(self, key)
        if owner.body_hash != key.body_hash:
            self._count("other_body")
            raise KeyReused
        if owner.answer_sealed is None:
            self._count("in_flight")
            raise StillInFlight
        return StoredAnswer(self._opened(key, owner.answer_sealed), owner.request_id)

    async def drain(self) -> None:
        """Everything that was handed over is written when this returns."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def store(self, key: Key, body: bytes) -> None:
        sealed = self._seal.close(body, _owner_of(key))
        try:
            async with self._database.statement() as connection:
                await keep(connection, key, sealed)
        except DATABASE_ERRORS as error:  # the caller gets its answer all the same
            self._log.warning("answer_not_kept", request_id=key.request_id, error=reason(error))

    async def free(self, key: Key) -> None:
        try:
            async with self._database.statement() as connection:
                await forget(connection, key)
        except DATABASE_ERRORS as error:  # it stays in flight until this run ends, or the key expires
            self._log.warning("idempotency_key_not_freed", request_id=key.request_id, error=reason(error))

    def _opened(self, key: Key, sealed: bytes) -> bytes:
        body = self._seal.open(sealed, _owner_of(key))
        if body is None:
            # Sealed under a master key that is gone. To run the request again is what the key was to prevent.
            self._count("unreadable")
            raise ServiceUnavailable("The stored answer cannot be read.")
        self._count("replayed")
        return body

    def _count(self, result: str) -> None:
        self._metrics.idempotent_requests.labels(result).inc()


def _key(tenant_id: TenantId, value: str, endpoint: str, body: bytes, request_id: RequestId) -> Key:
    if not (0 < len(value) <= KEY_LENGTH_MAX and value.isascii() and value.isprintable()):
        raise KeyNotUsable(KEY_LENGTH_MAX)
    key_hash = hashlib.sha256(f"{tenant_id}\0{value}".encode()).digest()
    return Key(tenant_id, key_hash, hashlib.sha256(endpoint.encode() + b"\0" + body).digest(), request_id)


def _owner_of(key: Key) -> bytes:
    return owner_of(key.tenant_id, key.key_hash)
