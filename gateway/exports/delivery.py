"""Sends queued meter events to Stripe's endpoint, each at least once and counted there once.

A repeated attempt carries the same identifier and the same idempotency key, which Stripe recognises for 24 hours. An
event whose attempt ended without an answer is therefore tried again for a day only; after that nobody can tell whether
sending it would count it twice, and it is left for a person, as `uncertain`. So is one that Stripe would no longer take
for its age, as `expired`. One that Stripe refuses is `refused`, with what Stripe said.

For one customer, one event at a time: Stripe allows one call at once per customer and meter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Literal

import aiohttp
import orjson

from gateway.clock import Clock
from gateway.db import Database
from gateway.exports.models import MeterEvent
from gateway.exports.repository import deliveries
from gateway.exports.stripe import MeterLine
from gateway.obs.metrics import Metrics

__all__ = ["Answer", "MeterDelivery", "judge"]

PATH = "/v1/billing/meter_events"
TIMEOUT_S = 20
BATCH = 200
CUSTOMERS_AT_ONCE = 8
LEASE = timedelta(minutes=10)
"""Longer than a batch takes even if every call of one customer times out once: they end with the first that does."""
AGE_MAX = timedelta(days=35)
UNANSWERED_MAX = timedelta(hours=23)
RETRY_MIN, RETRY_MAX = timedelta(seconds=5), timedelta(hours=1)
_MESSAGE_CHARS_MAX = 500

Status = Literal["delivered", "refused", "pending", "uncertain", "expired"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What an attempt came to. `pending`: try again, not before `retry_after` if the server said so. Without an
    answer, and with one that tells of trouble over there, it is not known whether the event was taken."""

    status: Status
    error: str | None = None
    retry_after: timedelta | None = None
    is_answered: bool = True


class MeterDelivery:
    """`run_due` sends what is due; several workers may do so at once."""

    def __init__(self, database: Database, clock: Clock, metrics: Metrics, url: str, key: str) -> None:
        self._database = database
        self._clock = clock
        self._metrics = metrics
        self._url = url.rstrip("/") + PATH
        self._headers = {"Authorization": f"Bearer {key}"}

    async def run_due(self) -> None:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(headers=self._headers, timeout=timeout) as http:
            while events := await self._claim():
                places = asyncio.Semaphore(CUSTOMERS_AT_ONCE)
                by_customer = sorted(events, key=lambda event: event.customer_id)
                async with asyncio.TaskGroup() as group:
                    for _, theirs in groupby(by_customer, lambda event: event.customer_id):
                        group.create_task(self._send_all(http, places, list(theirs)))

    async def _claim(self) -> Sequence[MeterEvent]:
        async with self._database.write() as session:
            return await deliveries.claim(session, BATCH, LEASE)

    async def _send_all(
        self, http: aiohttp.ClientSession, places: asyncio.Semaphore, events: Sequence[MeterEvent]
    ) -> None:
        """One customer's, in order. When Stripe wants a pause, the rest waits with the event that it said so to."""
        async with places:
            paused: Answer | None = None
            for event in events:
                answer = paused or self._outdated(event) or await self._post(http, event)
                await self._record(event, answer, is_sent=paused is None)
                if answer.status == "pending":
                    paused = Answer("pending", "waits for the event before it", answer.retry_after)

    def _outdated(self, event: MeterEvent) -> Answer | None:
        now = self._clock.now()
        if event.unanswered_at is not None and now - event.unanswered_at > UNANSWERED_MAX:
            return Answer("uncertain", event.last_error)
        if now - event.happened_at > AGE_MAX:
            return Answer("expired", event.last_error or "older than Stripe takes")
        return None

    async def _post(self, http: aiohttp.ClientSession, event: MeterEvent) -> Answer:
        line = MeterLine(
            event.event_name,
            event.identifier,
            event.happened_at,
            event.customer_id,
            event.tenant_id,
            event.amount_nanousd,
        )
        headers = {"Idempotency-Key": event.identifier}
        try:
            async with http.post(
                self._url, data=line.fields(), headers=headers, allow_redirects=False
            ) as answer:
                return judge(answer.status, answer.headers, await answer.read())
        except (aiohttp.ClientError, TimeoutError) as error:
            never_sent = isinstance(error, aiohttp.ClientConnectorError)
            return Answer("pending", f"{type(error).__name__}: {error}", is_answered=never_sent)

    async def _record(self, event: MeterEvent, answer: Answer, *, is_sent: bool) -> None:
        unanswered_at = event.unanswered_at
        if not answer.is_answered and unanswered_at is None:
            unanswered_at = self._clock.now()
        retry_in = answer.retry_after or _backoff(event.attempts)
        async with self._database.write() as session:
            await deliveries.record(session, event, answer.status, answer.error, retry_in, unanswered_at)
        if is_sent:
            self._metrics.meter_events.labels(answer.status).inc()


def judge(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """An event that is there already has been delivered, by an attempt whose answer was lost."""
    if 200 <= status < 300:
        return Answer("delivered")
    code, message = _error_of(body)
    said = f"{status} {message}"[:_MESSAGE_CHARS_MAX]
    if status == 400 and (code == "resource_already_exists" or "already exists" in message):
        return Answer("delivered", said)
    # 401 and 403 are about our key, 409 about a call with the same idempotency key, 424 and 429 about their load.
    if status in (401, 403, 408, 409, 424, 429) or status >= 500:
        return Answer("pending", said, _retry_after(headers), is_answered=status < 500)
    return Answer("refused", said)


def _error_of(body: bytes) -> tuple[str, str]:
    try:
        error = orjson.loads(body)["error"]
        return str(error.get("code", "")), str(error.get("message", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return "", body[:_MESSAGE_CHARS_MAX].decode(errors="replace")


def _retry_after(headers: Mapping[str, str]) -> timedelta | None:
    seconds = headers.get("Retry-After", "")
    return min(timedelta(seconds=int(seconds)), RETRY_MAX) if seconds.isdecimal() else None


def _backoff(attempts: int) -> timedelta:
    return min(RETRY_MIN * int(3 ** min(max(attempts - 1, 0), 10)), RETRY_MAX)
